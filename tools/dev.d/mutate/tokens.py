"""Splits C++ into tokens, and says what each stands in: code, a declaration, or what is never mutated.

This is no parser. It reads sources as clang-format leaves them, where a binary operator has spaces around it and a
template's brackets have none, and gives up where it is not sure: what it takes for code wrongly does not compile, and
another mutation is tried.
"""

import dataclasses
import re

TOKEN = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>//(?:\\.|[^\\\n])*|/\*.*?\*/)
    | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"\w*|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"\w*)
    | (?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    | (?P<number>0[xX][\da-fA-F']+\w*|\.?\d(?:[eE][+-]|'(?=\w)|[\w.])*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<operator><<=|>>=|<=>|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|<<|>>|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
# With the lines that it goes on in.
DIRECTIVE = re.compile(r"[ \t]*#(?:\\.|[^\\\n])*", re.DOTALL)

CLOSING = {"(": ")", "[": "]", "{": "}"}
# `NAME(...)` whose arguments are types, or are read by the compiler alone.
UNEVALUATED = {"static_assert", "sizeof", "alignof", "alignas", "decltype", "noexcept", "explicit", "typeid", "assert"}
# What a `{` of these opens holds declarations.
SCOPES = {"namespace", "class", "struct", "union", "enum", "extern"}
# What may stand between a function's parameters and its body.
BEFORE_BODY = {"const", "noexcept", "override", "final", "mutable", "else", "do", "try", "volatile"}


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str  # string, character, number, name or operator
    text: str
    start: int  # its offset in the source
    line: int  # from 1 on

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a source, without comments and directives of the preprocessor."""
    found = []
    at, line = 0, 1
    while at < len(text):
        at_line_start = at == 0 or text[at - 1] == "\n"
        match = (at_line_start and DIRECTIVE.match(text, at)) or TOKEN.match(text, at)
        assert match, f"no token at offset {at}"
        kind = match.lastgroup if match.re is TOKEN else "directive"
        # Spaces up to the next line, so that a directive is seen where its line begins.
        end = match.end() if kind != "space" else text.rfind("\n", at, match.end()) + 1 or match.end()
        if kind in ("string", "mark"):
            kind = "string"
        if kind not in ("space", "comment", "directive"):
            found.append(Token(kind, text[at:end], at, line))
        line += text.count("\n", at, end)
        at = end
    return found


class Source:
    """One file: its tokens, which of them are code, and which brackets belong together."""

    def __init__(self, path: str, text: str):
        self.path = path
        self.text = text
        self.tokens = tokens_of(text)
        self.closing: dict[int, int] = {}  # index of a bracket -> index of the one that closes it
        self.opening: dict[int, int] = {}  # and back
        self.code: list[bool] = []  # by token: in the body of a function
        self.inert: set[int] = set()  # tokens that are not mutated
        self._find_blocks()
        self._find_inert()

    def is_spaced(self, index: int) -> bool:
        """As clang-format writes binary operators, and nothing else that looks like one."""
        token = self.tokens[index]
        before, after = self.text[token.start - 1 : token.start], self.text[token.end : token.end + 1]
        return before.isspace() and after.isspace()

    def word(self, index: int) -> str:
        """The token's text; nothing where there is none."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def kind(self, index: int) -> str:
        return self.tokens[index].kind if 0 <= index < len(self.tokens) else ""

    def after_arguments(self, index: int) -> int:
        """The index behind the template's arguments that open at `index`; `index` where it is none."""
        depth = 0
        for at in range(index, min(index + 200, len(self.tokens))):
            word = self.word(at)
            if word == "<":
                depth += 1
            elif word in (">", ">>"):
                depth -= len(word)
                if depth <= 0:
                    return at + 1
            elif word in (";", "{", "}"):
                break
        return index

    def _find_blocks(self) -> None:
        opened: list[int] = []
        blocks = ["scope"]  # of the braces around this token
        for index, token in enumerate(self.tokens):
            self.code.append(blocks[-1] == "code")
            if token.kind != "operator":
                continue
            if token.text in CLOSING:
                opened.append(index)
                if token.text == "{":
                    blocks.append(self._block(index, blocks[-1]))
            elif token.text in CLOSING.values() and opened:
                self.opening[index] = opened.pop()
                self.closing[self.opening[index]] = index
                if token.text == "}" and len(blocks) > 1:
                    blocks.pop()

    def _block(self, index: int, around: str) -> str:
        """What the brace at `index` opens: code, a scope of declarations, enumerators, or a list of values."""
        before = self.word(index - 1)
        head = self._head(index)
        is_scope = bool(SCOPES & set(head)) and "(" not in head
        if is_scope:
            return "enumerators" if "enum" in head else "scope"
        if before in BEFORE_BODY or before in (")", "]") or (around == "code" and before in (";", "{", "}", ":")):
            return "code"
        # `) -> Type {`
        at = index - 1
        while at > 0 and (self.kind(at) == "name" or self.word(at) in ("::", "<", ">", ">>", "*", "&", ",")):
            at -= 1
        if self.word(at) == "->" and self.word(at - 1) in (")", "const", "mutable", "noexcept"):
            return "code"
        return around if around == "enumerators" else "values"

    def _head(self, index: int) -> list[str]:
        """The words of the declaration that the brace at `index` belongs to, without a template's parameters."""
        start = index
        while start > 0 and self.word(start - 1) not in (";", "{", "}"):
            start -= 1
        if self.word(start) == "template":
            start = self.after_arguments(start + 1)
        return [token.text for token in self.tokens[start:index]]

    def _find_inert(self) -> None:
        for index, token in enumerate(self.tokens):
            following = self.word(index + 1)
            if token.kind == "name" and token.text in UNEVALUATED and following == "(":
                self._leave(index, self.closing.get(index + 1, index + 1))
            elif token.text == "template" and following == "<":
                self._leave(index, self.after_arguments(index + 1))
            elif token.text in ("log", "spdlog") and following == "::" and self.word(index + 3) == "(":
                self._leave(index, self.closing.get(index + 3, index + 3))
            elif token.text == "[" and following == "[":
                self._leave(index, self.closing.get(index, index))
            elif token.text in ("using", "typedef", "friend", "operator", "requires", "concept"):
                self._leave(index, self._statement_end(index) if token.text != "operator" else index + 1)
            elif token.text == "if" and following == "constexpr":
                self._leave(index, self.closing.get(index + 2, index + 2))
            elif token.text == "=" and self.word(index + 2) == ";" and following in ("0", "default", "delete"):
                # Of a pure function; constants that are 0 are mutated in other ways.
                if self.word(index - 1) in (")", "const", "override", "noexcept", "final"):
                    self._leave(index, index + 1)
            elif token.text == "{" and "enum" in self._head(index) and not self.code[index]:
                self._leave(index, self.closing.get(index, index))

    def _leave(self, first: int, last: int) -> None:
        self.inert.update(range(first, last + 1))

    def _statement_end(self, index: int) -> int:
        while index < len(self.tokens) and self.word(index) not in (";", "{", "}"):
            index += 1
        return index
