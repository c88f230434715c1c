#!/usr/bin/python3 -B
"""Runs the tests beside this: of the mutations, of what is drawn from them, of the copy, of the order of tests."""

import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
sys.path[:0] = [HERE, os.path.abspath("tools/dev.d")]

if __name__ == "__main__":
    tests = unittest.TestLoader().discover(HERE, pattern="*_test.py")
    # What cannot be found does not pass.
    result = unittest.TextTestRunner(verbosity=2).run(tests)
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
