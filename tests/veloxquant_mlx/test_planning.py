"""Plans with numbers a person can add up."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tiny import tiny_config
from veloxquant_mlx.config import KVCacheConfig, SlotShape, methods
from veloxquant_mlx.layout import Body, Growth, Layout, SlotLayout
from veloxquant_mlx.models.compute import MARGIN
from veloxquant_mlx.models.describe import ModelInfo
from veloxquant_mlx.models.slots import read_layout
from veloxquant_mlx.planning import TIGHT, Fit, Longest, Machine, MemoryPlan, plan_rows

ROW = Growth(2 * (64 + 64))
SLOT = SlotLayout(None, SlotShape(2, 64, 64), (ROW,))
WINDOW = SlotLayout(("keeps a window", "keep windows"), SlotShape(2, 64, 64), (replace(ROW, most=512),))
INFO = ModelInfo(
    Path("/m"), "m", "opened", "mlx", "llama",
    parameters=1_000_000, weight_bits=4.5, size_bytes=562_500, context=4096, slots=4, kv_slots=2,
    layout=Layout((SLOT, SLOT, WINDOW, WINDOW)), body=Body(256, 1024, 8, 1000),
)  # fmt: skip
METAL = Machine(10**9, "as given", metal=True)
PLAIN, SKVQ = KVCacheConfig("plain"), KVCacheConfig("skvq")


def plan(info: ModelInfo = INFO, memory: int = 10**9, *, metal: bool = True) -> MemoryPlan:
    return MemoryPlan.of(info, Machine(memory, "as given", metal))


def test_weights_stay_packed_on_metal_and_are_unpacked_on_a_processor_with_room() -> None:
    assert (plan().weights, plan().width) == (562_500, 2)
    roomy = plan(memory=4_000_000 + MARGIN, metal=False)
    assert (roomy.weights, roomy.width) == (4_000_000, 4)
    tight = plan(memory=4_000_000 + MARGIN - 1, metal=False)
    assert (tight.weights, tight.width) == (562_500, 4)
    assert plan(replace(INFO, weight_bits=32.0)).width == 4
    loaded = MemoryPlan.of(INFO, METAL, loaded=600_000)
    assert (loaded.weights, loaded.measured, plan().measured) == (600_000, True, False)


def test_windows_stop_growing_in_the_sum() -> None:
    # Two slots with a row of 512 bytes a token; two that stop at 512 of them.
    assert plan().at_16_bits(100) == 4 * 512 * 100
    assert plan().at_16_bits(4096) == 2 * 512 * 4096 + 2 * 512 * 512
    found = plan().cache(PLAIN, 4096)
    assert found is not None
    assert (found.exact, found.foreign) == (2 * 512 * 4096, 2 * 512 * 512)
    on_cpu = plan(metal=False).cache(PLAIN, 4096)
    assert on_cpu is not None and on_cpu.total == 2 * found.total
    assert plan().per_thousand(PLAIN) == found.total / 4096 * 1000


def test_the_running_pass_is_a_block_its_scores_and_the_rows_of_one_slot() -> None:
    block = 256 * (8 * 256 + 4 * 1024) + 1000
    assert plan().working(None, 4096) == 2 * (block + 256 * 4096)
    assert plan(metal=False).working(None, 4096) == 4 * (block + 8 * 256 * 4096 + 256 * 4096)
    assert plan().working(SKVQ, 4096) == 2 * (block + 9 * 256 * 4096)
    odd = replace(INFO, layout=Layout((SlotLayout(None, SlotShape(2, 96, 96), (ROW,)),)))
    assert plan(odd).working(None, 4096) == 2 * (block + 8 * 256 * 4096 + 2 * 192 * 4096)
    assert plan(replace(INFO, body=None)).working(None, 4096) == 0


@pytest.mark.parametrize("config", [None, PLAIN, SKVQ, KVCacheConfig("affine")])
def test_the_longest_context_fits_to_the_token(config: KVCacheConfig | None) -> None:
    free = replace(INFO, context=None)
    made = plan(free, memory=64_000_000)
    longest = made.longest(config)
    assert longest is not None and longest.by_memory and longest.tokens > 1000
    at, beyond = made.need(config, longest.tokens), made.need(config, longest.tokens + 1)
    assert at is not None and beyond is not None
    assert at.total <= 64_000_000 < beyond.total
    assert made.fit(config, longest.tokens) == Fit.TIGHT
    assert made.fit(config, longest.tokens + 1) == Fit.TOO_LARGE


def test_the_model_s_own_context_ends_what_memory_does_not() -> None:
    assert plan().longest(SKVQ) == Longest(4096, by_memory=False)
    assert plan(memory=500_000).longest(SKVQ) == Longest(0, by_memory=True)
    assert plan(memory=500_000).fit(SKVQ, 1) == Fit.TOO_LARGE


def test_three_states_and_the_unknown() -> None:
    need = plan().need(SKVQ, 4096)
    assert need is not None and need.total == need.weights + need.cache + need.working
    assert plan(memory=need.total).fit(SKVQ, 4096) == Fit.TIGHT
    assert plan(memory=need.total - 1).fit(SKVQ, 4096) == Fit.TOO_LARGE
    assert plan(memory=round(need.total / TIGHT) + 1).fit(SKVQ, 4096) == Fit.FITS
    unknown = SlotLayout(("holds", "hold"), None, None)
    for info in (replace(INFO, layout=Layout((SLOT, unknown))), replace(INFO, layout=None)):
        made = plan(info)
        assert made.fit(SKVQ, 1) == Fit.UNKNOWN
        assert (made.need(SKVQ, 1), made.longest(SKVQ), made.per_thousand(SKVQ)) == (None, None, None)


def test_what_fits_only_with_fewer_tokens_is_tight() -> None:
    few, many = plan().need(SKVQ, 1024), plan().need(SKVQ, 4096)
    assert few is not None and many is not None and few.total < many.total
    for memory, state in (
        (few.total - 1, Fit.TOO_LARGE), (few.total, Fit.TIGHT), (many.total - 1, Fit.TIGHT),
        (many.total, Fit.FITS),
    ):  # fmt: skip
        assert plan(memory=memory).fit(SKVQ, 4096, least=1024, ease=1.0) == state
    assert plan(memory=many.total).fit(SKVQ, 4096, least=1024) == Fit.TIGHT, "without ease"


def test_every_preset_has_its_row_and_the_setting_in_use_has_its_own() -> None:
    own = KVCacheConfig("skvq", skvq_bits_key=5)
    rows = plan_rows(plan(), methods(), own)
    assert rows[0].spelled == "plain" and rows[0].smaller is None
    assert rows[1].config == own and rows[1].name == "SKVQ as set"
    wanted = sum(max(1, len(method.presets)) for method in methods().values()) + 1
    assert len(rows) == wanted == len({row.spelled for row in rows})
    balanced = next(row for row in rows if row.spelled == "skvq:Balanced")
    assert balanced.compressed == 2 and balanced.per_thousand is not None
    assert balanced.smaller == pytest.approx(plan().at_16_bits(4096) / (balanced.per_thousand * 4.096))
    assert plan_rows(plan(), methods(), balanced.config) == plan_rows(plan(), methods())


def test_latents_are_counted_but_compressed_by_nothing() -> None:
    info = replace(INFO, layout=read_layout(tiny_config("deepseek_v3")))
    assert {row.compressed for row in plan_rows(plan(info), methods())} == {0}
    assert plan(info).at_16_bits(1000) == 2 * 1000 * 48 * 2
