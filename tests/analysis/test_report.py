"""The report: one page with every run in it, nothing from outside, and no name that becomes markup."""

from __future__ import annotations

import base64
import html.parser
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rl_lightning.analysis.plot import Band, plain_label, save, svg_uri
from rl_lightning.analysis.report import make_report as reports
from rl_lightning.analysis.report.training_curves import training_curves
from rl_lightning.runs.store.run_folder import Run

EVIL = "<img src=x onerror=alert(1)>"
CHROMIUM = Path("/usr/bin/chromium")


class Page(html.parser.HTMLParser):
    """Tags, attributes and text, as a browser would take them."""

    VOID = ("meta", "link", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def page(add, rl, logs) -> Page:
    for seed in range(2):
        add(f"good-s{seed}", [1, 2, 3 + seed], group="good", seed=seed)
    folder = add(
        EVIL,
        [1, 5],
        algorithm="</style><script>alert(2)</script>",
        command=["rl", "fit", '"><svg onload=alert(3)>'],
        config={"model": {"init_args": {"name": "</pre><script>alert(4)</script>", "lr": "' onclick='x"}}},
    )
    (folder / "videos").mkdir()
    (folder / "videos" / "a<b>.mp4").write_bytes(b"\0" * 1000)
    (folder / "videos" / "big.mp4").write_bytes(b"\0" * (reports.VIDEO_BYTES + 1))
    answer = rl(
        "report", "good", EVIL, "--metrics", "reward,loss", "--title", "<h1>T</h1>", "--output", "r.html"
    )
    assert answer.code == 0, answer.err
    return Page((logs.parent / "r.html").read_text())


def test_every_run_is_in_it(page):
    for name in ("good-s0", "good-s1", EVIL, "<h1>T</h1>", "eval/return", "train/loss", "better than good"):
        assert name in page.text
    assert page.tags.count("section") == 3 and page.tags.count("img") == 2 and page.open == []


def test_nothing_becomes_markup(page):
    frame = {
        "html",
        "head",
        "meta",
        "link",
        "title",
        "style",
        "body",
        "main",
        "nav",
        "section",
        "div",
        "details",
    }
    words = {"h1", "h2", "h3", "p", "a", "ul", "li", "pre", "summary", "figure", "figcaption", "video"}
    tables = {"table", "thead", "tbody", "tr", "th", "td"}
    assert set(page.tags) <= frame | words | tables | {"img"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert "</pre><script>alert(4)</script>" in page.text


def test_nothing_is_fetched(page):
    loaded = [
        value for name, value in page.attributes if name in ("src", "href", "xlink:href", "data", "action")
    ]
    assert loaded and all(value.startswith(("data:", "#")) for value in loaded)
    text = (Path("r.html")).read_text()
    assert not re.search(r"url\(|@import|https?://", text)
    assert "default-src 'none'" in text and "@media print" in text and "width=device-width" in text


def test_small_videos_are_carried_and_large_ones_named(page):
    kinds = [value.split(";")[0] for name, value in page.attributes if name == "src"]
    assert kinds == ["data:image/svg+xml"] * 2 + ["data:video/mp4"]
    assert "big.mp4 (4.0 MB) is too large" in page.text and "a<b>.mp4" in page.text


@pytest.mark.skipif(not CHROMIUM.exists(), reason="no Chromium is installed here (/usr/bin/chromium)")
def test_it_opens_in_a_browser_without_a_complaint(page, tmp_path):
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    options += ["--disable-background-networking", "--no-first-run", "--enable-logging=stderr", "--dump-dom"]
    address = (tmp_path / "r.html").as_uri()
    done = subprocess.run(
        [CHROMIUM, *options, address], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr, done.stderr
    assert "<script" not in done.stdout and done.stdout.count('<section class="run">') == 3
    assert "&lt;img src=x onerror=alert(1)&gt;" in done.stdout


def band(**fields):
    values = {"label": "a", "clock": "env_step", "x": [0.0, 1.0], "y": [1.0, 2.0], "low": [1.0, 2.0]}
    return Band(**({**values, "high": [1.0, 2.0], "runs": 1} | fields))


def test_curves_of_odd_shapes():
    flat = {"x": [5.0], "y": [3.0], "low": [3.0], "high": [3.0]}
    for bands in ([band()], [band(**flat)], [band(label=EVIL, runs=3), band(**flat)]):
        uri = svg_uri(bands, "m<")
        assert uri == svg_uri(bands, "m<"), "the same curves, the same page"
        text = base64.b64decode(uri.partition(",")[2]).decode()
        names = [node.text for node in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}text")]
        assert "m<" in names and {plain_label(each) for each in bands} <= set(names)


def test_pictures_of_odd_names(tmp_path):
    names = ["$x^$", "_hidden", "a\nb", EVIL, "中"]
    path = save([band(label=name) for name in names], "$$", tmp_path / "new" / "p.png")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_styles_are_told_apart():
    from rl_lightning.analysis.plot import style

    assert len({style(i) for i in range(40)}) == 40


def test_runs_of_one_config_share_a_card_and_no_place_is_named(add, rl, logs):
    for seed in range(3):
        command = ["rl", "fit", "--config", "/home/somebody/secret/my.yaml", "--seed", str(seed)]
        add(f"g-s{seed}", [1, 2], group="g", seed=seed, config_hash="abc", command=command)
    add(
        "other",
        [1, 2],
        config_hash="def",
        config={"data": {"init_args": {"dataset": f"{logs.parent}/rows.npz"}}},
    )
    assert rl("report", "g", "other", "--output", "r.html").code == 0
    text = (logs.parent / "r.html").read_text()
    page = Page(text)
    assert page.tags.count("section") == 2 and "g-s0, g-s1, g-s2" in page.text and "0 · 1 · 2" in page.text
    assert "/home/somebody" not in text and ".../my.yaml" in text
    assert str(logs.parent) not in text and "rows.npz" in text


def test_what_the_stages_of_a_pipeline_learned_is_shown_together(add, rl, logs):
    add("p", kind="pipeline", algorithm="", env=None)
    model, policy = (add(f"p/{name}", [1.0, 2.0, 3.0]) for name in ("model", "policy"))
    (model.parent / "pipeline.json").write_text('{"jobs": {"model": {}, "policy": {}}}')
    for folder, column in ((model, "train/nll_loss"), (policy, "train/q_values")):
        (folder / "metrics.csv").write_text(f"env_step,update,eval/return,{column}\n1,1,5,3\n2,2,6,2\n")
    curves = dict(training_curves({"p": [Run(policy)]}, ["eval/return"]))
    assert list(curves) == ["train/nll_loss", "train/q_values"]
    assert rl("report", "p", "--output", "r.html").code == 0
    assert "train/nll_loss: curves" in (logs.parent / "r.html").read_text()


def test_a_group_is_one_curve_and_a_picture_has_the_name_of_its_metrics(add, rl):
    for seed in range(2):
        add(f"a-s{seed}", [seed, 1.0], group="a", seed=seed)
    add("b", [3.0, 4.0])
    result = rl("plot", "a", "b", "--metric", "eval/return,train/loss")
    assert result.code == 0 and result.out.splitlines()[-1].endswith("a-s0/a-eval-return-train-loss.png")
    assert "● a  ○ b" in result.out and result.out.count("└") == 2
    assert rl("plot", "b").out.splitlines()[-1].endswith("b/eval-return.png")
