"""What each operator changes, and what is left alone."""

import unittest

from mutate.operators import mutations_of


def in_function(body):
    return f"int F(int a, int b) {{\n  {body}\n}}\n"


class OperatorsTest(unittest.TestCase):
    def mutants(self, text, operator):
        """All that the operator makes of a text."""
        return [m.apply(text) for m in mutations_of("a.cc", text) if m.operator == operator]

    def check(self, operator, body, *expected):
        """A function's body and what it becomes; without `expected`, nothing is changed."""
        self.assertEqual(self.mutants(in_function(body), operator), [in_function(text) for text in expected])

    def test_comparisons_ask_for_the_opposite(self):
        self.check("comparison", "return a == b;", "return a != b;")
        self.check("comparison", "return a < b;", "return a >= b;")
        self.check("comparison", "return a <= b && a > b;", "return a > b && a > b;", "return a <= b && a <= b;")

    def test_boundaries_are_wrong_by_one(self):
        self.check("boundary", "return a < b;", "return a <= b;")
        self.check("boundary", "return a >= b;", "return a > b;")
        self.check("boundary", "return a == b;")

    def test_a_templates_brackets_are_no_comparisons(self):
        self.check("boundary", "std::vector<std::vector<int>> v(a); template_call<int>(b);")
        self.check("comparison", "const auto f = [&]() -> int { return a; };")

    def test_all_becomes_any(self):
        self.check("logical", "return a && b;", "return a || b;")
        self.check("logical", "return a || b;", "return a && b;")
        self.check("logical", "for (auto&& x : All(a)) Use(x);")

    def test_arithmetic_computes_something_else(self):
        self.check("arithmetic", "return a + b;", "return a - b;")
        self.check("arithmetic", "return a % b;", "return a * b;")
        self.check("arithmetic", "a += b;", "a -= b;")
        self.check("arithmetic", "++a;", "--a;")
        self.check("arithmetic", "return size_t{1} << a;", "return size_t{1} >> a;")

    def test_texts_pointers_references_and_streams_are_not_computed_with(self):
        self.check("arithmetic", 'return Error("no " + a + "of");')
        self.check("arithmetic", "const Foo* p = &a; Foo& r = *p; return -a;")
        self.check("arithmetic", "out << a << b;")

    def test_a_negation_is_forgotten(self):
        self.check("negation", "return !a;", "return a;")
        self.check("negation", "return a != b;")

    def test_conditions_hold_always_or_never(self):
        self.check("condition", "if (a) F();", "if (false && (a)) F();", "if (true || (a)) F();")
        self.check("condition", "while (G(a)) F();", "while (false && (G(a))) F();")

    def test_conditions_that_declare_something_are_left(self):
        self.check("condition", "if (const auto x = G(a); x) F();")
        self.check("condition", "while (true) F();")

    def test_conditions_of_the_compiler_are_left(self):
        self.assertEqual(mutations_of("a.cc", in_function("if constexpr (kA == 1) return a;")), [])

    def test_statements_are_left_out(self):
        self.check("statement", "Call(a, G(b));", "{}")
        self.check("statement", "a = b + 1;", "{}")
        self.check("statement", "x.y->z[a]++;", "{}")
        self.check("statement", "std::get<0>(t)(b);", "{}")
        self.check("statement", "if (a) return; else Call(b);", "if (a) {} else Call(b);", "if (a) return; else {}")
        self.check("statement", "auto f = [this] { Call(); };", "auto f = [this] { {} };")

    def test_declarations_are_no_statements(self):
        for body in ("std::lock_guard lock(mutex_);", "std::unique_ptr<int> p(new int);", "int x = a;", "Foo& r = a;"):
            self.check("statement", body)
        self.check("statement", "return Call(a);")
        self.assertEqual(self.mutants("class A {\n  A(int);\n  void F();\n  B b_{1};\n};\n", "statement"), [])
        self.assertEqual(self.mutants("namespace n {\nMACRO(a);\n}\n", "statement"), [])

    def test_statements_that_only_make_it_faster_are_left(self):
        self.check("statement", "v.reserve(a);")

    def test_bodies_are_found_behind_what_stands_before_them(self):
        for head in ("void F() const noexcept", "auto F() -> std::vector<int>", "A::A(int a) : a_(a), b_(1)"):
            self.assertEqual(self.mutants(f"{head} {{\n  Call();\n}}\n", "statement"), [f"{head} {{\n  {{}}\n}}\n"])

    def test_constants_are_one_more_half_or_the_other_truth(self):
        self.check("constant", "return 0;", "return 1;")
        self.check("constant", "return 3u;", "return 4u;")
        self.check("constant", "return 1'000;", "return 500;")
        self.check("constant", "return true;", "return false;")

    def test_lengths_and_what_is_overwritten_are_left(self):
        self.check("constant", "std::array<char, 8> x; char y[8];")
        self.check("constant", "constexpr std::chrono::seconds kWait{1}; Wait(5s, 0.5);")
        self.check("constant", "int size = 0; Read(a, &size);")

    def test_other_threads_see_things_in_another_order(self):
        self.check(
            "memory order",
            "return x.load(std::memory_order_acquire);",
            "return x.load(std::memory_order_relaxed);",
        )
        self.check("memory order", "return x.load(std::memory_order_relaxed);")

    def test_what_does_nothing_is_left(self):
        for text in (
            "// a == b\n/* a < b\n a > b */\n",
            "#if A == 1 && \\\n    B < 2\n#define X(a) (a + 1)\n#endif\n",
            'const char* kText = "a == b" R"x(a < ")" b)x" \'<\';\n',
            "static_assert(sizeof(A) == 8 && kB < 2);\n",
            "template <typename T, int N = 1>\nusing A = B<T, N + 1>;\n",
            "enum class Kind { kA = 1, kB = 2 };\n",
            "struct A {\n  virtual void F() = 0;\n};\n",
            in_function('log::Warn("lost ", a + 1, b == 2);'),
            in_function("[[maybe_unused]] int x;"),
        ):
            self.assertEqual(mutations_of("a.cc", text), [], text)

    def test_places_are_told_by_line(self):
        (mutation,) = mutations_of("d/a.cc", "#include <x>\n// b\n\nbool x = a <=\n b;\n")[:1]
        self.assertEqual((mutation.path, mutation.line, mutation.change), ("d/a.cc", 4, "<= -> <"))
