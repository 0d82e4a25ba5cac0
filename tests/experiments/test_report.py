"""What experiments leave behind: records, figures and the report, the same for the same seed."""

import json
import re

import matplotlib.pyplot as plt
import pytest

from xmen import XmenError
from xmen.cli.reproduce import columns_side_by_side, run_reproduce
from xmen.experiments import reproduce
from xmen.experiments.notebook import Findings, Notebook, Table, html

TIMES = re.compile(r"<!-- times -->.*?<!-- /times -->", re.S)


def tiny(folder, **settings):
    book = Notebook("tiny", folder, quick=True, seed=4, **settings)
    book.title("Fewer than <three> things")
    book.say("One   sentence\n & a half.")
    book.set(size=9, sizes=(1, 2))
    with book.stage("drawing") as done:
        done(0.5)
        figure, ax = plt.subplots()
        ax.plot([0, 1], [book.seed, 2])
        book.figure(figure, "tiny_line", 'A "line".')
    book.table("numbers", {"name": "", "share": ".1%", "n": ","}, [("a", 0.25, 1000), ("b", None, 7)], note="of all")
    return book.finish()


def test_only_whole_records_are_read(tmp_path):
    record, path = tiny(tmp_path), tmp_path / "tiny.json"
    assert Findings.read(path) == record
    text = path.read_text()
    for broken in (text[: len(text) // 2], json.dumps({**json.loads(text), "format": 99})):
        path.write_text(broken)
        assert Findings.read(path) is None
    assert Findings.read(tmp_path / "nothing.json") is None


def test_cells_are_formatted_with_errors_and_missing_ones_marked(tmp_path):
    assert tiny(tmp_path).tables[0].cells() == [["a", "25.0%", "1,000"], ["b", "n/a", "7"]]
    means = Table("numbers", {"name": "", "share": ".1%"}, [["a", [0.25, 0.015]], ["b", [0.5]], ["c", [None, None]]])
    assert [row[1] for row in means.cells()] == ["25.0% ± 1.5%", "50.0%", "n/a ± n/a"]


def test_stages_say_how_far_they_are(tmp_path):
    told = []
    tiny(tmp_path, tell=lambda stage, share: told.append((stage, share)))
    assert told == [("drawing", None), ("drawing", 0.5), ("drawing", 1.0)]


def test_the_report_is_self_contained_and_escapes_text(tmp_path):
    page = html([tiny(tmp_path)], tmp_path)
    assert "Fewer than &lt;three&gt; things" in page
    assert "data:image/png;base64," in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert "--quick --seed 4" in page


def test_the_same_seed_gives_the_same_report_apart_from_times(tmp_path):
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
    one, two = (TIMES.sub("", html([tiny(folder)], folder)) for folder in folders)
    assert one == two


def test_an_unknown_experiment_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(XmenError, match=r"'gird'.*figure1, grid, human, convergence"):
        reproduce("gird", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.system
def test_the_command_puts_figures_directly_in_the_folder_and_ends_with_the_table(tmp_path, capsys):
    settings = {"quick": True, "out": tmp_path, "seed": 0, "data": None, "as_json": False}
    assert run_reproduce("figure1", **settings) == 0
    record = Findings.read(tmp_path / "figure1.json")
    assert all((tmp_path / picture.file).stat().st_size > 0 for picture in record.pictures)
    printed = capsys.readouterr().out
    assert printed.index(record.pictures[-1].file) < printed.rindex(record.tables[-1].title)


@pytest.mark.system
def test_resuming_reads_what_is_there(tmp_path, capsys):
    found = []
    for seed, resume in ((0, False), (0, True), (1, True)):
        run_reproduce("figure1", quick=True, out=tmp_path, seed=seed, data=None, as_json=True, resume=resume)
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]  # times included: nothing was run
    assert found[2]["experiments"][0]["seed"] == 1


def test_columns_that_do_not_fit_follow_below_and_no_word_is_broken():
    columns = {"method": "", **dict.fromkeys(("P(triangle)", "log-likelihood", "held out"), ".3f")}
    table = Table("numbers", columns, [["X-MEN cells, CryptoMiniSat", 1.0, 2.0, 3.0]])
    assert columns_side_by_side(table, 200) == [[0, 1, 2, 3]]
    parts = columns_side_by_side(table, 60)
    assert parts == [[0, 1, 2], [0, 3]]
    assert columns_side_by_side(table, 10) == [[0, 1], [0, 2], [0, 3]]  # what fits nowhere has a part of its own
