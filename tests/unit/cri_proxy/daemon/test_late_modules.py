"""In a process of its own, which has not loaded the module yet."""

import subprocess
import sys

LATE = "import sys\nfrom cri_proxy.daemon.late_modules import load_late\nload_late('colorsys')\nimport colorsys\n"


def output(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_a_module_is_loaded_when_something_of_it_is_used() -> None:
    shown = "print(hasattr(colorsys, '__file__'))"
    assert output(f"{LATE}{shown}\ncolorsys.rgb_to_hsv(0, 0, 0)\n{shown}") == "False\nTrue\n"


def test_modules_that_have_imported_it_before_and_after_use_the_same() -> None:
    used = "early = colorsys\nfrom colorsys import rgb_to_hsv\nimport colorsys\n"
    assert output(f"{LATE}{used}print(early.rgb_to_hsv is rgb_to_hsv is colorsys.rgb_to_hsv)") == "True\n"


def test_a_name_that_it_does_not_have_is_the_usual_error() -> None:
    used = "try:\n  colorsys.missing\nexcept AttributeError as error:\n  print(error)"
    assert output(f"{LATE}{used}") == "module 'colorsys' has no attribute 'missing'\n"


def test_threads_may_use_it_first_at_once() -> None:
    used = "from concurrent.futures import ThreadPoolExecutor as Pool\n"
    used += "with Pool(8) as pool: found = set(pool.map(lambda _: colorsys.rgb_to_hsv(0, 0, 0), range(64)))\n"
    assert output(f"{LATE}{used}print(found)") == "{(0.0, 0.0, 0)}\n"


def test_a_module_that_is_loaded_stays_as_it_is() -> None:
    used = "import colorsys\nfrom cri_proxy.daemon.late_modules import load_late\nload_late('colorsys')\nimport sys\n"
    assert output(f"{used}print(sys.modules['colorsys'] is colorsys)") == "True\n"
