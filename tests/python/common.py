"""What the tests of the Python package share: checks that go on, and a skip where something is not there."""

import os
import sys

SKIP = 77
_failures = []


def need(*names):
    """Skips the test where a package is not installed."""
    for name in names:
        try:
            __import__(name)
        except ImportError:
            print(f"skipped: {name} is not installed")
            sys.exit(SKIP)


def check(condition, text=""):
    if not condition:
        frame = sys._getframe(1)
        _failures.append(f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}: {text}")
        print("FAILED", _failures[-1], flush=True)


def raises(kind, function, words=""):
    """The exception, whose text holds the words."""
    try:
        function()
    except kind as error:
        check(words in str(error), f"'{words}' is not in '{error}'")
        return error
    check(False, f"{kind.__name__} was expected")
    return None


def run(*tests):
    for test in tests:
        print(test.__name__, flush=True)
        test()
    print(f"{len(tests)} tests, {len(_failures)} failures")
    sys.exit(1 if _failures else 0)
