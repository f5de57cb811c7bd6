"""On the site each claim has an anchor, a verdict with a mark and a colour, and a filter; each record has a card."""

import re
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

pytest.importorskip("sphinx")
from site_extension import claims, studies  # noqa: E402

from attention_research.studies.claims_page import Judgement, entries  # noqa: E402
from attention_research.studies.competence import Met  # noqa: E402

TABLE = """# Claims

| verdict | claims |
| --- | ---: |
| held | 1 |

## Topic

| claim | notes | command | measured | learned | verdict |
| --- | --- | --- | --- | --- | --- |
| One. <a id="one"></a>[one](#one) | 000, 004 | `attention-research reproduce a/b --scale=cpu` | x | yes | held |
| Not so. <a id="no"></a>[no](#no) | 001 | `reproduce c/d` | y | no | did not hold |
"""


def test_verdicts_get_a_mark_and_claims_a_link():
    text = claims.marked(TABLE)
    assert '| <span class="verdict held">✓ held</span> | 1 |' in text
    assert 'One. <a id="one" class="permalink" href="#one">one</a> | 000, 004 |' in text
    assert text.count('<span class="verdict held">') == 2 and text.count('"verdict failed">✗ did not hold<') == 1
    assert "| 000, 004 | a/<wbr>b at cpu | x |" in text and "| claim | notes | study |" in text
    assert text.index("claims-filter") < text.index("## Topic")


def test_every_claim_of_the_page_is_marked():
    text = claims.marked((ROOT / "docs/claims.md").read_text(encoding="utf-8"))
    names = re.findall(r'<a id="([\w-]+)" class="permalink" href="#\1">\1</a>', text)
    assert names and sorted(names) == sorted(one["id"] for one in entries(ROOT))


def test_the_words_of_a_card():
    claim = lambda name, kind: {"id": name, "claim": f"It is {name}.", "kind": kind}
    met = lambda yes: Judgement("held", learned=(Met(yes, "bleu", 1.0, 1.0, 0.0),))
    exact, measured = (
        (claim("exact", "exact"), Judgement("held", learned=None)),
        (claim("real", "empirical"), met(True)),
    )
    assert studies.finding([exact, measured]) == 'Held: <a href="../claims.html#real">It is real.</a>'
    assert studies.finding([exact]).startswith("Held: ") and studies.finding([]) == ""
    failed = (claim("f", "empirical"), Judgement("did not hold"))
    assert studies.finding([failed]).startswith("Did not hold: ")
    assert studies.finding([(claim("u", "empirical"), Judgement("not tested"))]) == "No claim is judged yet."
    assert "for 1 of 2 claims" in studies.learned([measured, (claim("n", "empirical"), met(False)), exact])
    assert studies.learned([exact]) == ""


@pytest.mark.slow
def test_every_record_has_a_card():
    from attention_research.studies import records

    text = studies.overview(ROOT)
    folders = records.recorded(ROOT / "experiments")
    assert text.count("{container} card\n") == len(folders) > 50
    assert all(f"({Path('../..', folder.relative_to(ROOT))}/table.md)" in text for folder in folders)


PAGE = """<!doctype html><div id="claims-filter"></div><section><section id="topic"><h2>Topic</h2><table><tbody>
<tr><td>Attention helps. <a id="one" class="permalink" href="#one">one</a></td><td>000, 004</td>
<td>a/b at cpu</td><td></td><td></td><td>✓ held</td></tr>
</tbody></table></section><section id="other"><h2>Other</h2><table><tbody>
<tr><td>Speed matters. <a id="two" class="permalink" href="#two">two</a></td><td>001</td>
<td>c/d at cpu</td><td></td><td></td><td>✗ did not hold</td></tr>
</tbody></table></section></section><script src="claims.js"></script>"""


@pytest.mark.slow
def test_the_filter_hides_what_does_not_fit(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    if not (chromium := shutil.which("chromium")):
        pytest.skip("no chromium")
    (tmp_path / "page.html").write_text(PAGE, encoding="utf-8")
    (tmp_path / "claims.js").write_bytes((ROOT / "docs/static/claims.js").read_bytes())
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        seen = lambda: [name for name in ("topic", "other") if page.is_visible(f"#{name}")]
        assert seen() == ["topic", "other"]
        page.select_option("[name=verdict]", "did not hold")
        assert seen() == ["other"] and page.inner_text("output") == "1 of 2 claims"
        page.click("button")
        page.wait_for_function("document.querySelector('output').textContent.startsWith('2')")
        page.select_option("[name=notes]", "004")
        assert seen() == ["topic"]
        page.select_option("[name=notes]", "")
        page.select_option("[name=study]", "c/d")
        assert seen() == ["other"]
        page.select_option("[name=study]", "")
        page.focus("[name=text]")
        page.keyboard.type("speed")
        assert seen() == ["other"]
        page.evaluate("location.hash = 'one'")  # a link to a hidden claim shows it
        page.wait_for_function("document.querySelector('output').textContent.startsWith('2')")
        assert seen() == ["topic", "other"]
        browser.close()
