"""Named columns of one array are what was put in, whatever their shapes, and look at the array that is asked about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from twinproof.tasks.columns import Columns

ROWS = {
    "one": np.arange(3.0),
    "none": np.zeros((3, 0)),
    "five": np.arange(15.0).reshape(3, 5),
    "pose": np.arange(48.0).reshape(3, 4, 4),
}


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_columns_are_what_was_put_in(kind):
    columns = Columns(ROWS)
    whole = kind(columns.joined(ROWS))
    assert tuple(whole.shape) == (3, 22)
    found = columns.views(whole)
    assert list(found) == list(ROWS)
    for name, rows in ROWS.items():
        np.testing.assert_array_equal(np.asarray(found[name]), rows)
    found["pose"][1] = -1.0
    assert float(whole[1, 6]) == -1.0
    assert columns.views(whole) is found
    other = columns.views(whole + 1)
    assert float(other["one"][0]) == 1.0
    assert float(columns.views(whole)["one"][0]) == 0.0
