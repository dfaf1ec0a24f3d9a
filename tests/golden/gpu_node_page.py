"""The commands of docs/gpu-node.md with their answers.

``python -m tests.golden.gpu_node_page`` writes the answers into the page after they have changed on purpose.
"""

from tests.golden.costs_page import ROOT, answered

PAGE = ROOT / "docs" / "gpu-node.md"

if __name__ == "__main__":
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(answered(PAGE.read_text(), Path(made)))
