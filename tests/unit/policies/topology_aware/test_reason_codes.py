import ast
from pathlib import Path

from policies.topology_aware import reasons
from policies.topology_aware.alignment import reasons as alignment_reasons
from policies.topology_aware.claims import reasons as claim_reasons
from policies.topology_aware.devices import reasons as device_reasons
from policies.topology_aware.memory import reasons as memory_reasons
from policies.topology_aware.reason_codes import ReasonCode

ROOMS = (reasons, memory_reasons, alignment_reasons, device_reasons, claim_reasons)


def test_every_sentence_has_a_code_and_every_code_its_sentence() -> None:
    trees = [ast.parse(Path(str(module.__file__)).read_text()) for module in ROOMS]
    made = [n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == "Reason"]
    assert {ast.unparse(call.args[0]) for call in made} == {f"ReasonCode.{code.name}" for code in ReasonCode}
