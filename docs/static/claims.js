// The filter of the page of claims: by verdict, study, lecture notes and text. Its state is in the address.
(() => {
  const place = document.getElementById("claims-filter");
  const claims = [...document.querySelectorAll("a.permalink")].map(link => {
    const cells = [...link.closest("tr").cells];
    return {
      row: link.closest("tr"),
      text: cells[0].textContent.toLowerCase(),
      notes: cells[1].textContent.trim().split(", "),
      study: cells[2].textContent.trim().split(" ")[0],
      verdict: cells[5].textContent.trim().replace(/^\S+ /, ""),
    };
  });
  if (!place || !claims.length) return;

  const values = name => [...new Set(claims.flatMap(claim => claim[name]))].sort();
  const select = (name, title) => {
    const options = values(name).map(value => `<option>${value}</option>`).join("");
    return `<label>${title} <select name="${name}"><option value="">all</option>${options}</select></label>`;
  };
  const form = document.createElement("form");
  form.setAttribute("role", "search");
  form.innerHTML = select("verdict", "verdict") + select("study", "study") + select("notes", "lecture notes")
    + '<label>text <input type="search" name="text"></label><button type="reset">show all</button>'
    + '<output aria-live="polite"></output>';
  place.append(form);

  const apply = () => {
    const asked = Object.fromEntries(new FormData(form));
    let shown = 0;
    for (const claim of claims) {
      const fits = (!asked.verdict || claim.verdict === asked.verdict) && (!asked.study || claim.study === asked.study)
        && (!asked.notes || claim.notes.includes(asked.notes)) && claim.text.includes(asked.text.trim().toLowerCase());
      claim.row.hidden = !fits;
      shown += fits;
    }
    for (const section of document.querySelectorAll("section section")) {
      const rows = [...section.querySelectorAll("tbody tr")];
      section.hidden = rows.length > 0 && rows.every(row => row.hidden);
    }
    form.querySelector("output").textContent = `${shown} of ${claims.length} claims`;
    const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value)).toString();
    try {
      history.replaceState(null, "", (query ? `?${query}` : location.pathname) + location.hash);
    } catch { /* a page that is opened as a file may not change its address */ }
  };

  for (const [name, value] of new URLSearchParams(location.search)) {
    if (form.elements[name]) form.elements[name].value = value;
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", event => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.closest("tr")?.hidden) form.reset();
    setTimeout(() => target?.scrollIntoView({ block: "center" }));
  });
  apply();
})();
