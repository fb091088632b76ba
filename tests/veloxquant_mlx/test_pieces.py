from typing import ClassVar

from veloxquant_mlx.pieces import Pieces


def test_a_piece_keeps_the_space_that_decoders_of_marked_vocabularies_drop() -> None:
    class Marked:
        asked = 0
        words: ClassVar = {1: "\u2581sky", 2: "blue", 3: "\u2581"}

        def decode(self, tokens: list[int]) -> str:
            self.asked += 1
            return "".join(self.words[t] for t in tokens).replace("\u2581", " ").removeprefix(" ")

        def convert_ids_to_tokens(self, token: int) -> str:
            return self.words[token]

    tokenizer = Marked()
    assert Pieces(tokenizer).of([1, 2, 1, 3, 1]) == (" sky", "blue", " sky", " ", " sky")
    assert tokenizer.asked == 3
