"""What the tests of the command line share."""

import json

MAZE = "maze:size=3,goals=2,horizon=4"


def last_json(output):
    """The object on the last line of standard output."""
    return json.loads(output.strip().split("\n")[-1])


def only_line(code, output, errors):
    """The one line on standard error of a refused command."""
    assert code == 2
    assert output == ""
    assert errors.startswith("latentmdp: ")
    assert errors.endswith("\n")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert "─" not in errors
    return errors
