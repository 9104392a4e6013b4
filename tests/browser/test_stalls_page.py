"""What a job waited for while it did nothing, in the report: drawn, described under the mouse."""

from __future__ import annotations

from made_telemetry import WALL, Made, end, sample

from unglow.pages.report.report import write_report

# The colour of a canvas' pixel at a place of the window.
COLOUR = """
((x, y) => {
  const canvas = document.querySelector("#resources canvas");
  const box = canvas.getBoundingClientRect();
  const at = [x - box.x, y - box.y].map((v) => Math.round(v * devicePixelRatio));
  return [...canvas.getContext("2d").getImageData(...at, 1, 1).data].slice(0, 3);
})(%d, %d)
"""


def test_a_stall_is_on_the_time_axis_with_its_reason(tmp_path, view_tab):
    stall = {"kind": "stall", "reason": "network file system", "message": "it waits", "helps": "ls"}
    made = Made(tmp_path / "results")
    samples = [sample(t, 100, cpu=t / 2) for t in range(0, 200, 5)]
    stalls = [stall | {"t": 110, "seconds": 60, "over": False}]
    stalls += [stall | {"t": 150, "seconds": 100, "over": True}]
    made.attempt("align", 0, *samples, *stalls, end(200.0))
    made.run({"kind": "end", "t": 200, "wall": WALL + 200, "outcome": "ok"}, cores=1, pairs=[])

    view_tab.complaints.clear()
    view_tab.open(write_report(made.results).absolute().as_uri())
    view_tab.wait("document.documentElement?.dataset.ready")
    view_tab.run("document.querySelector('#technical').open = true")
    view_tab.run("document.querySelector('#resources').scrollIntoView()")
    view_tab.wait(
        "document.querySelector('#resources .u-over').getBoundingClientRect().y < 500", 10
    )
    box = view_tab.run(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.querySelector('#resources .u-over').getBoundingClientRect())"
    )
    tips, colours = {}, {}
    for t in (40, 100, 175):
        x, y = box[0] + box[2] * t / 200, box[1] + box[3] / 2
        view_tab.move(x, y)
        tips[t] = view_tab.wait("document.querySelector('#resources .tip')?.innerText", 10)
        colours[t] = view_tab.run(COLOUR % (x, y - 8))
    assert "here: idle: network file system (1 min 40 s)" in tips[100]
    assert not any("idle" in tips[t] for t in (40, 175))
    assert colours[40] == colours[175] != colours[100]
    view_tab.click(x, y)
    view_tab.wait("document.querySelector('#resources .attempt')?.innerText", 10)
    assert "1 min 40 s from 50 s on, idle: network file system" in view_tab.text
    view_tab.run("document.querySelectorAll('.incident').forEach((i) => (i.open = true))")
    (words,) = view_tab.run("[...document.querySelectorAll('.incident')].map((i) => i.innerText)")
    for part in ("no bytes moved for 100 s. It waits.", "What helps: Ls."):
        assert part in words
    assert not [one for one in view_tab.complaints if "getImageData" not in one["text"]]
