"""The schema's facts against a file that the reference serializer wrote."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from npusim.frontends.tosa import TosaFile, decode_constant, read_tosa, schema, write_tosa

# One operator of every kind that has attributes, its output named like itself, and tensors and shapes of every kind:
# written by the Python serializer of tosa-tools 2026.8.0, deflated.
REFERENCE = """
eNp9mF1oVEcUgGd/cjdZ17hNtjaoD3kQCW20UWMUSYvr7ia7uJu73b2JtqjXxE2JbZqEJIotoj74IMUH6YNI6YOUPuShlFJEpJQifZJS+iB9kCBF
2j6IWPEnxtX83J5z58y9M5O1Gw73b+Y7Z845c2Ym9Ywxyywnrz1wnPZmxurhOQvXIOP3XzUxNvGv4+D9KbgPwDUMMgLvWuB6Ms7YTZA2+NYNkgd5
C95/C1IFOQ8dYgCbAUmHGLsAsgEAFZBHIHvqGLsMchekzWBsGuQGSDzC2BGQ70EWQdJgwAWQeyAdDcAFmQM5EIX2IC2rwE6QmyCxGPBBroPEVgMH
5DpIvBHag1wGuQ3SsoaxUZCZR47TxtxfAIbC8H4X42PdAt/CzP+deug46JsQ830B5rJkqbeQPMDbVKFPJ78NIm8E+zHu09MaL8YS4OcwXOMgYCMI
+rUVpI76hKV7oVvojVCcGiR7omjPQK9dNM38tjTXc+GxN8YQ6jgCMkGspseqTbPLjpOA6waQjeQXoV/oC5JNBukMaLbJvkmZfQPCjsQTzzdhtOMk
5gi1/VKxoxE8E3N9g15pJN9soPgYpAvHusr1I3+W/WHUsKtOei/bt53su+rbV4f6Rsk+7Lf7iWpfC9nXDJaifbrPDObPowjdG8QKk4TofUCyCfWm
M0Uruz9Xztiy92CuPvXiaMRJVydxZ5+ocbw17ziIDUhj7+mxPNiVp95Y6+U8RXs3PV2Zp3y0fp62UiwEv0EaqyHlSFiKQVDLU5g0Sp52znnja5DH
h+wfNZt+eK6OD3WWpAGenfPGF0XWQco31GvM1Z6Ha7R5KOe+nO+Ow+vAksM5cuysUrKvXDRXxC7+zBvbKmzXDtJN+XtJs2fLguPchpp1Z7WaG2hD
Kp8sFKldxWfGhb/SZMd9jflXVfXXWrdu5axsIWPlUnYp15u17HI212Px9jd89jo5Fuswj56p7AF4lu2M8NjmCv0F7t95j7VeZq0H+UJjff2M+1Zh
5fo81gGftVWwsF5vBflTYz3U7MLYlzLp/lTGTubzvM2Mz9sm87ZhHOZV3rvzqm0yr+99qv8+b7tYTzDO27H+a7zf5rh9odpMb03JP/eYnTKzk+a5
zGwl/4Vfwcz10fz3mTvEuJG5A+f/c5XZBc91Eq/R5xVLJlwpZ+Z8Zpfsyy6QzzTm5/Bs1LaxTKFm6arH2ynnzU6QXzXeLDxHVtb2VJJsu+izdsus
3TgXqiprU5XveeQcLGUGMqVyxv1+x2e9EydOFh9AhjTWJD2L+se0et8g1wz63v3C4++Rbd0D8ovGv1VVc9Ktg5ly7gOCnX/h1cG9wlasEXsxji/0
OhiDsda7lBi3NBBa4YdyKpnn8H+gfwfvmomTDzBl8etHCjsKNYnvdKK0XuN6+aCe21sZ/2Tw2Bj3z/iEFsP+smVSPlgvPb/0xMkfWAt7MP7aWNoo
hnFiDY9ODTO6nx4ZHmPauCBX0naux+37k6+nV+jBNOpFv71U9VzU9AyNVz4Veo6Oj1WYluP7s7l8xs6bJhXxtgVPV16u4VievtN0/QzPrRLvdbfO
WoX+vG3Ze/Nmap/tBkcsOud8dkFmozujCyp73YLKxvUhlSxbdk/JLNSA3/XZfTIby8uHGvvEglqHE4JtmbXMZt2LHtsUbMwzE/NfY9+CZ3n/i/ma
zvGEOQecdt7skKibqOQQjn9R5hiQnRE33+Q1sgnXyHI5U7LszHv9yTysj8kizau7vo2HhY2YJ4dx/Iva+BdV3zZ7++KVw9+15HFtmWtj/DXu74vq
3G9W9lR2Mp0sWrkBbvBFn3tE5uJZYO2SVv+W1HrfrJwpVO49nzso58EgyJjGPb2k+iHB6wk6tWYepJc99pDMHsL6r7Fnl9QcewPZ5n67N2llM6WV
+Cs+uyL2s1gbccJuWtbm+DJnh2mPK+ac+P7AZ6UEC/MuhfVfY92RWBi7Y1ScO5xXM65pjFbHZ4Rcxi73/fT/MF5qjIrO2Nrlvr/uM/YJBs69fbj/
cVTGjMTAfJkaGZwYFvtdOA21wO42DFGOuydcbovgijUNuZc0btj9U9eBqaODo4OTdLCmOOCoJyHuMXrXQnXYod/EawF+mPNsM9xVyKjBNah/ms4J
3+Acx5oBiEXQEScdCWqHPnvz7wZvPa+T4tm+zNsbdCZspTWPH0xc084w7XyKMaxQv7CkBxl/LAdZe4C3D0nxGoP2IfJFQtpHBqXz8LGxiePTmzvc
aoYRwWjgSQd7NUn/bxBnnY1UJ0VMGe1RpqYHp4ffPuGGICCN2X1P+RUgW+qpH14nh6eOj3IDmDyHar2X7cVnvitgyn09nUSFnoPUP+HlXNg9z+F+
Q5zjakmtX5TW781Do+NHP1bX8xjlMd/F8DwTY7wfkfc5vE1U2+u5sQmG3Psz9O4stfkP2GXrbA==
"""
EXPECTED: dict[str, dict[str, Any]] = {
    "ARGMAX": {"axis": 3, "nan_mode": "IGNORE"},
    "AVG_POOL2D": {"kernel": (2, 3), "stride": (4, 5), "pad": (6, 7, 8, 9), "acc_type": "INT32"},
    "CONV2D": {"pad": (1, 2, 3, 4), "stride": (5, 6), "dilation": (7, 8), "local_bound": True, "acc_type": "INT32"},
    "CONV3D": {
        "pad": (1, 2, 3, 4, 5, 6),
        "stride": (7, 8, 9),
        "dilation": (10, 11, 12),
        "local_bound": False,
        "acc_type": "INT48",
    },
    "DEPTHWISE_CONV2D": {
        "pad": (4, 3, 2, 1),
        "stride": (6, 5),
        "dilation": (8, 7),
        "local_bound": True,
        "acc_type": "INT48",
    },
    "FFT2D": {"inverse": True, "local_bound": False},
    "MAX_POOL2D": {"kernel": (3, 2), "stride": (5, 4), "pad": (9, 8, 7, 6), "nan_mode": "PROPAGATE"},
    "RFFT2D": {"local_bound": True},
    "TRANSPOSE_CONV2D": {"out_pad": (-1, 2, -3, 4), "stride": (5, 6), "local_bound": True, "acc_type": "INT32"},
    "CLAMP": {"min_val": b"\x80", "max_val": b"\x7f", "nan_mode": "PROPAGATE"},
    "ARITHMETIC_RIGHT_SHIFT": {"round": True},
    "MAXIMUM": {"nan_mode": "PROPAGATE"},
    "MINIMUM": {"nan_mode": "IGNORE"},
    "REDUCE_ALL": {"axis": 1},
    "REDUCE_ANY": {"axis": 2},
    "REDUCE_MAX": {"axis": 3, "nan_mode": "PROPAGATE"},
    "REDUCE_MIN": {"axis": 4, "nan_mode": "IGNORE"},
    "REDUCE_PRODUCT": {"axis": 5},
    "REDUCE_SUM": {"axis": 6},
    "CONCAT": {"axis": 7},
    "REVERSE": {"axis": 8},
    "TRANSPOSE": {"perms": (2, 0, 1)},
    "RESIZE": {"mode": "BILINEAR"},
    "RESCALE": {
        "scale32": True,
        "rounding_mode": "DOUBLE_ROUND",
        "per_channel": False,
        "input_unsigned": True,
        "output_unsigned": False,
    },
    "CUSTOM": {"operator_name": "op", "domain_name": "domain", "implementation_attrs": b"\x01\x02\x03"},
    "COND_IF": {"then_graph": "then", "else_graph": "else"},
    "WHILE_LOOP": {"cond_graph": "cond", "body_graph": "body"},
    "MATMUL_T_BLOCK_SCALED": {"block_size": 32},
    "CAST_FROM_BLOCK_SCALED": {"block_size": 32},
    "CAST_TO_BLOCK_SCALED": {"block_size": 1},
    "DIM": {"axis": 9},
    "ASSERT_EQUAL_SHAPE": {"allow_broadcast": True},
    "CONV2D_BLOCK_SCALED": {"block_size": 32},
    "MAX_POOL2D_ADAPTIVE": {"nan_mode": "IGNORE"},
    "AVG_POOL2D_ADAPTIVE": {"acc_type": "INT32"},
    "RESHAPE_BLOCK_SCALED": {"block_size": 32},
    "ROW_GATHER_BLOCK_SCALED": {"block_size": 1},
    "MATMUL_T": {},
}


def reference() -> TosaFile:
    return read_tosa(zlib.decompress(base64.b64decode(REFERENCE)), "reference.tosa")


def test_every_operator_with_attributes_reads_as_the_reference_serializer_wrote_it() -> None:
    by_output = {operator.outputs[0]: operator for operator in reference().regions[0].blocks[0].operators}
    for name, attributes in EXPECTED.items():
        assert (by_output[name].name, dict(by_output[name].attributes)) == (name, attributes)


def test_no_operator_with_attributes_is_missing_from_the_reference() -> None:
    assert {name for name, fields in schema.ATTRIBUTES.items() if fields} == EXPECTED.keys() - {"MATMUL_T"}


def test_tensors_shapes_and_regions_read_as_the_reference_serializer_wrote_them() -> None:
    file = reference()
    main = file.regions[0].blocks[0]
    assert file.version == (1, 1, 0, True)
    assert [(region.name, [block.name for block in region.blocks]) for region in file.regions] == [
        ("main", ["main"]),
        ("body", ["body-block"]),
    ]
    assert (main.inputs, main.outputs) == (("input-0",), ("result-0",))
    assert [(t.name, t.shape, t.dtype, t.is_variable, t.variable_name) for t in main.tensors.values()] == [
        ("i4", (5,), "INT4", False, ""),
        ("i48", (2,), "INT48", False, ""),
        ("i16", (3,), "INT16", False, ""),
        ("input-0", (1, 2, 3), "INT8", False, ""),
        ("state", (1,), "INT32", True, "state/var"),
        ("result-0", (), "BOOL", False, ""),
    ]
    constants = {name: decode_constant(main.tensors[name]).tolist() for name in ("i4", "i48", "i16", "state")}
    assert constants == {
        "i4": [-6, 2, 3, -2, -7],
        "i48": [-(2**47), 2**47 - 1],
        "i16": [-300, 2, 300],
        "state": [5],
    }
    assert {shape.name: shape.values for shape in main.shapes.values()} == {"shape": (-1, 70000), "scalar": ()}


def test_the_reference_survives_a_round_trip() -> None:
    assert read_tosa(write_tosa(reference()), "again.tosa") == reference()


def test_anchors_of_the_number_tables() -> None:
    """One name per group of the published enumerations, so that a lost or doubled word is noticed."""
    operators = {1: "ARGMAX", 15: "ADD", 32: "ABS", 45: "SELECT", 49: "REDUCE_ALL", 66: "RESCALE", 75: "CONST_SHAPE"}
    operators |= {79: "DIM", 93: "ASSERT_EQUAL_SHAPE", 100: "MATMUL_T"}
    assert {number: schema.OPERATORS[number] for number in operators} == operators
    assert len(schema.OPERATORS) == len(set(schema.OPERATORS)) == 101
    dtypes = {1: "BOOL", 2: "INT4", 6: "INT48", 10: "SHAPE", 17: "INT64", 18: "MXINT8"}
    assert {number: schema.DTYPES[number] for number in dtypes} == dtypes
    assert len(schema.DTYPES) == len(set(schema.DTYPES)) == 19
