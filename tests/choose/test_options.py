import pytest
import yaml

from cnnpool.choose.options import Options, duration, parse, split, tries
from cnnpool.launch import conf_dir
from cnnpool.registry import options_of

DEFAULTS = yaml.safe_load((conf_dir() / "choose" / "default.yaml").read_text())


def test_the_file_holds_every_option_at_its_default():
    assert set(DEFAULTS) == set(options_of(Options))
    assert parse([], DEFAULTS) == Options()


def test_a_budget_is_a_number_with_a_unit():
    known = {"90s": 90, "30min": 1800, "30m": 1800, "1.5h": 5400, "2 h": 7200, "1d": 86400}
    assert {text: duration(text) for text in known} == known
    for text in ("2", "two hours", "h", "0s", "-1h", "1y", "", "1e9d", "nan h"):
        with pytest.raises(ValueError, match=r"choose\.budget=.* give one such as 90s, 30min, 2h or 1d"):
            parse([f"choose.budget={text}"], DEFAULTS)


def test_options_are_read_from_the_command_line():
    asked = ["choose.pools=max,avg+kernel_size=3", "choose.margin=1e-3", "choose.rounds=5"]
    asked += ["choose.limit=1.5"]
    options = parse([*asked, "choose.tune=fit.lr:[0.01,0.1],fit.weight_decay:[0,0.1]"], DEFAULTS)
    assert options.pools == ("max", "avg+kernel_size=3")
    assert (options.margin, options.rounds, options.limit) == (0.001, 5, 1.5)
    assert tries(options.tune) == {"fit.lr": ["0.01", "0.1"], "fit.weight_decay": ["0", "0.1"]}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("choose.pools=max", "choose.pools must be a list, each a text, at least 2 of them, got"),
        ("choose.pools=max,avg,max", "choose.pools names max more than once"),
        ("choose.margin=5", "choose.margin must be a number from 0 to 1, got 5"),
        ("choose.tune=fit.lr", "choose.tune=fit.lr: give a key and two values or more"),
        ("choose.tune=fit.lr:[0.1]", "give a key and two values or more"),
        ("choose.margins=0.1", "choose.margins: no such option; did you mean 'margin'?"),
        ("choose.margin", "not of the form choose.margin=VALUE"),
    ],
)
def test_an_option_out_of_range_is_refused_in_one_line(setting, said):
    with pytest.raises(ValueError) as refused:
        parse([setting], DEFAULTS)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_commas_inside_brackets_do_not_split():
    assert split("a:[1,2],b:[3,4]") == ["a:[1,2]", "b:[3,4]"]
    assert split("[a, b]") == ["a", "b"] == split("a,b")
    assert split("null") == []
