"""Apply the edits of doctor's remedies to the files of a root, as an operator or a distribution's set-up would."""

from pathlib import Path

from cri_proxy.kubelet.edit_text import edited
from cri_proxy.kubelet.edits import Edit

# nodeadm writes what NodeConfig holds into this file.
_NODE_CONFIG = {"spec.kubelet.config of NodeConfig": "etc/kubernetes/kubelet/config.json.d/40-nodeadm.conf"}


def apply(root: Path, edit: Edit) -> None:
    """Change the file below ``root``."""
    path = root / _NODE_CONFIG.get(edit.place, edit.place).lstrip("/")
    if not edit.key:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(edited(path.read_text() if path.exists() else "", edit))
