from cri_proxy.simulate.errors import ExpectationError
from cri_proxy.yaml_fields import DocumentError


def test_an_error_names_file_and_line_where_it_has_one() -> None:
    assert str(DocumentError("a.yaml", 3, "no machine")) == "a.yaml:3: no machine"
    assert str(DocumentError("a.yaml", 0, "cannot be read")) == "a.yaml: cannot be read"
    assert str(ExpectationError("no such function")) == "no such function"
