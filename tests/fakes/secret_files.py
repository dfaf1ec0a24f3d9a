"""Files that only root reads, as a link or a mistake puts them where devices are listed; their words have ``MARK``."""

from collections.abc import Mapping
from typing import Final

MARK: Final = "zq"

SECRETS: Final[Mapping[str, str]] = {
    "shadow": "zqroot:$6$zqsalt$zqhash:19000:0:99999:7:::\nzqbin:*:19000:::::\n",
    "key": "-----BEGIN zqKEY-----\nzqMIIEvg\n-----END zqKEY-----\n",
    "word": "zqtoken",
    "environment": "zqPASSWORD=zqsecret\n",
    "list": "- zqsecret\n- zqother\n",
    "kubeconfig": "kind: zqConfig\nusers:\n- {name: zqadmin, user: {token: zqtoken}}\n",
    "manifest": "kind: zqPod\nspec: {zqcontainers: [{zqname: zq}]}\n",
    "registry": '{"zqauths": {"zqregistry.example": {"zqauth": "zqbase"}}}',
    "alias": "zqpassword: *zqsecret\n",
    "quote": "zqpassword: 'zqsecret\n",
    "twice": "zqa: zq\nzqa: zqb\n",
    "documents": "zqa: zq\n---\nzqb: zq\n",
    "control": "\x01zq",
    "scalar below a path": "zqtls/zqkey: zqsecret\n",
    "list below a path": "zqtls/zqkey: [zqsecret]\n",
    "mapping below a path": "zqtls/zqkey: {zqpassword: [zqsecret/zq]}\n",
    "alias below a path": "zqtls/zqkey:\n  zqpassword: *zqsecret\n",
    "word with dots": "v1.zqsecret.zqother",
    "word with a version": "v7.zqsecret",
    "options": "options: [zqsecret]\nzqtext: zq\n",
}
