"""What tests of the command line share: a tiny workload, and a call of ``npusim`` in this process."""

from __future__ import annotations

import pytest

from npusim.cli import main

WORKLOAD = """\
name: tiny
graph:
  inputs: {x: 1x6x6x4xi8}
  constants:
    w: {type: 8x3x3x4xi8, random: true}
    b: {type: 8xi32, random: [-100, 100]}
    m: {type: 8xi32, fill: 1073741824}
    s: {type: 8xi8, fill: 38}
  operators:
    - {name: c, op: conv2d, inputs: [x, w, b],
       attributes: {pad: [1, 1, 1, 1], stride: [1, 1], dilation: [1, 1], input_zp: 0, weight_zp: 0}}
    - {name: y, op: rescale, inputs: [c, m, s],
       attributes: {scale32: true, rounding: double, per_channel: true, input_unsigned: false, output_unsigned: false,
                    input_zp: 0, output_zp: 0, out_type: i8}}
  outputs: [y]
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of ``npusim`` with these arguments."""
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, arguments)))
    out, err = capsys.readouterr()
    assert isinstance(stopped.value.code, int)
    return stopped.value.code, out, err
