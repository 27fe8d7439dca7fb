"""The page: text written by hand, and between two comments what the program writes."""
import re


class Page:
    """A Markdown file with parts <!-- NAME: … --> … <!-- end of NAME -->, which are written by the program."""

    def __init__(self, path):
        self.path = path
        self.text = path.read_text(encoding="utf-8")

    def pattern(self, name):
        return re.compile(rf"(<!-- {name}: [^\n]* -->\n).*?(<!-- end of {name} -->)", re.S)

    def part(self, name):
        match = self.pattern(name).search(self.text)
        if not match:
            raise RuntimeError(f"{self.path} has no part '{name}'")
        return match.group().splitlines()[1:-1]

    def write(self, name, lines):
        self.part(name)
        body = "\n".join(lines).strip("\n")
        self.text = self.pattern(name).sub(lambda match: f"{match.group(1)}\n{body}\n\n{match.group(2)}", self.text)
        self.path.write_text(self.text, encoding="utf-8")

    def differences(self, name, lines):
        """Lines that the part lacks, marked +, and lines that it should not have, marked -."""
        now = [" ".join(line.split()) for line in lines if line.strip()]
        then = [" ".join(line.split()) for line in self.part(name) if line.strip()]
        return [f"+ {line}" for line in now if line not in then] + [f"- {line}" for line in then if line not in now]
