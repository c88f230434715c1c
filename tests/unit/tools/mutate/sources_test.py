"""The copy: it is what the checkout is, before and after a mutation, and the checkout is never written to."""

import os
import tempfile
import unittest

from mutate.operators import mutations_of
from mutate.sources import Busy, Copy

TEXT = "bool F(int a) {\n  return a < 2;\n}\n"


def write(folder, path, text):
    os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
    with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
        file.write(text)


def read(folder, path):
    with open(os.path.join(folder, path), encoding="utf-8") as file:
        return file.read()


class CopyTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root, self.folder = directory.name + "/root", directory.name + "/cache/sources"
        write(self.root, "runtime/a.cc", TEXT)
        (self.mutation,) = [m for m in mutations_of("runtime/a.cc", TEXT) if m.operator == "boundary"]

    def copy(self, *listed):
        copy = Copy(self.root, listed or ["runtime/a.cc"], self.folder)
        self.addCleanup(copy.close)
        return copy

    def test_a_mutation_is_in_the_copy_only_and_only_for_its_time(self):
        copy = self.copy()
        with copy.mutated(self.mutation):
            self.assertEqual(read(self.folder, "runtime/a.cc"), TEXT.replace("<", "<="))
            self.assertEqual(read(self.root, "runtime/a.cc"), TEXT)
        self.assertEqual(read(self.folder, "runtime/a.cc"), TEXT)

    def test_an_interrupt_takes_the_mutation_back(self):
        copy = self.copy()
        with self.assertRaises(KeyboardInterrupt), copy.mutated(self.mutation):
            raise KeyboardInterrupt
        self.assertEqual(read(self.folder, "runtime/a.cc"), TEXT)

    def test_what_a_killed_run_has_left_is_made_good(self):
        self.copy().close()
        write(self.folder, "runtime/a.cc", TEXT.replace("<", "<="))
        write(self.folder, "runtime/gone.cc", "")
        write(self.folder, "build/output", "")
        self.copy()
        self.assertEqual(read(self.folder, "runtime/a.cc"), TEXT)
        self.assertFalse(os.path.exists(self.folder + "/runtime/gone.cc"))
        self.assertTrue(os.path.exists(self.folder + "/build/output"))

    def test_it_holds_what_is_listed_and_this_checkouts_settings(self):
        write(self.root, ".bazelrc.user", "build --config=cpu\n")
        write(self.root, "not_listed.cc", "")
        self.copy("runtime/a.cc", "deleted_since.cc")
        self.assertEqual(read(self.folder, ".bazelrc.user"), "build --config=cpu\n")
        self.assertEqual(sorted(os.listdir(self.folder)), [".bazelrc.user", "runtime"])

    def test_two_runs_do_not_share_it(self):
        self.copy()
        with self.assertRaisesRegex(Busy, "another tools/dev mutate works in"):
            self.copy()
