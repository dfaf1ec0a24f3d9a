import pytest

from policies.costs.demand import CannotSelect, SetRequest, refuse
from policies.costs.model import CostListing
from policies.costs.table import compile_costs

TABLE = compile_costs(CostListing(present=("gpu/0", "gpu/1", "gpu/2", "nic/0")))


def test_a_request_that_can_be_met_is_not_refused() -> None:
    wanted = SetRequest({"gpu": 2, "nic": 1}, frozenset({"gpu/1", "gpu/7"}), frozenset({"gpu/2"}))
    assert refuse(TABLE, wanted) is None


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (SetRequest({}), "nothing is requested"),
        (SetRequest({"gpu": 0}), "nothing is requested"),
        (SetRequest({"gpus": 1}), "gpus: no instance of this type is present; did you mean gpu?"),
        (SetRequest({"xyz": 1}), "xyz: no instance of this type is present; known types: gpu, nic"),
        (SetRequest({"gpu": 4}), "gpu: 4 requested, 3 free (3 present, 0 busy)"),
        (SetRequest({"gpu": 3}, frozenset({"gpu/0"})), "gpu: 3 requested, 2 free (3 present, 1 busy)"),
        (
            SetRequest({"gpu": 1}, must=frozenset({"gpu/1", "gpu/0"})),
            "gpu: 1 requested, but 2 must be in the set: gpu/0",
        ),
        (SetRequest({"gpu": 1}, must=frozenset({"nic/0"})), "nic/0 must be in the set, but no nic is requested"),
        (SetRequest({"gpu": 1}, must=frozenset({"gpu/9"})), "gpu/9 must be in the set, but is not present"),
        (SetRequest({"gpu": 1}, frozenset({"gpu/1"}), frozenset({"gpu/1"})), "gpu/1 must be in the set, but is busy"),
    ],
)
def test_a_refusal_names_the_type_or_the_instance(wanted: SetRequest, problem: str) -> None:
    refused = refuse(TABLE, wanted)
    assert isinstance(refused, CannotSelect)
    assert problem in refused.problem
