import sys

sys.path.insert(0, "/usr/lib/cri-proxy")

from cri_proxy.cli.main import main

main()
