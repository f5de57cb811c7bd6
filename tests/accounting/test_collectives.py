"""collectives: XLA's three notations for groups of devices, loops, and asynchronous starts."""

import textwrap

import pytest

from attention_research.accounting.collectives import Collective, collectives

SIZES = {"data": 2, "fsdp": 4}
PROGRAM = """
HloModule jit_step, is_scheduled=true

%body (parameter: (s32[], f32[8])) -> (s32[], f32[8]) {
  %inside = f32[8]{0} all-gather(%x), replica_groups=GROUPS, dimensions={0}, metadata={op_name="jit(step)/while"}
  ROOT %tuple = (s32[], f32[8]) tuple(%a, %b)
}

%condition (parameter: (s32[], f32[8])) -> pred[] {
  ROOT %less = pred[] compare(%a, %b), direction=LT
}

ENTRY %main (parameter: f32[8]) -> f32[8] {
  %loop = (s32[], f32[8]) while(%t), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %sums = (f32[3]{0}, bf16[2,2]{1,0}) all-reduce(%y, %z), replica_groups=[1,8]<=[8], to_apply=%add
  %start = (f32[2]{0}, f32[2]{0}) collective-permute-start(%q), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}
  %done = f32[2]{0} collective-permute-done(%start)
  %alone = f32[9]{0} all-reduce(%w), replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}, to_apply=%add
  ROOT %out = f32[8] copy(%r)
}
"""


@pytest.mark.parametrize(
    "groups, axes",
    [
        ("{{0,1,2,3},{4,5,6,7}}", ("fsdp",)),
        ("{{0,4},{1,5},{2,6},{3,7}}", ("data",)),
        ("{}", ("data", "fsdp")),
        ("[2,4]<=[8]", ("fsdp",)),
        ("[4,2]<=[2,4]T(1,0)", ("data",)),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", ("fsdp",)),
        ("mesh['axis_0'=2,'axis_1'=4] {'axis_0','axis_1'}", ("data", "fsdp")),
        ("mesh['axis_0'=4,'axis_1'=2], device_ids=([2,4]T(1,0)) {'axis_1'}", ("data",)),
        ("mesh['axis_0'=8] {'axis_0':(2)4}", ("fsdp",)),
        ("mesh['axis_0'=8], device_ids=(0,4,1,5,2,6,3,7) {'axis_0':(4)2}", ("data",)),
    ],
)
def test_collectives_have_axes_loop_iterations_and_bytes(groups, axes):
    found = collectives(textwrap.dedent(PROGRAM).replace("GROUPS", groups), SIZES)
    assert found == [
        Collective("all-gather", axes, 5, 5 * 8 * 4),
        Collective("all-reduce", ("data", "fsdp"), 1, 3 * 4 + 4 * 2),
        Collective("collective-permute", ("fsdp",), 1, 2 * 4),
    ]
