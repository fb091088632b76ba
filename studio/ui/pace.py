"""How long the window rests between two looks at a running reply: the processor belongs to the reply."""

import time

SHORTEST_MS, LONGEST_MS = 50, 600
"""Twenty looks a second where they cost next to nothing; on a slow machine words come a few at a time."""
SHARE = 120
"""The rest is this many times the processor time that this thread took for the last look."""


class Pace:
    """What a look costs is all that the thread did since the one before it: painting comes afterwards."""

    def __init__(self) -> None:
        self._spent = time.thread_time()

    def rest(self) -> int:
        """Milliseconds until the next look; called once at the end of each."""
        before, self._spent = self._spent, time.thread_time()
        return round(min(LONGEST_MS, max(SHORTEST_MS, 1000 * SHARE * (self._spent - before))))
