// A table whose rows are sorted by a click on a heading.
(() => {
  const { h } = heddle;
  const shownAtFirst = 200;

  // columns: [{title, number, key(row), cell(row)}]. A row that has no key for a column comes last.
  heddle.sortable = function (columns, rows) {
    let by = -1;
    let down = false;
    let all = rows.length <= shownAtFirst;
    const body = h("tbody", {});
    const more = h("p", { class: "all-rows" }, h("button", { type: "button", onclick: () => { all = true; fill(); } }, `Show all ${heddle.number(rows.length, 9)} rows`));
    const heads = columns.map((column, i) => h("th", { scope: "col", class: column.number ? "number" : null },
      h("button", { type: "button", onclick: () => { down = by === i ? !down : Boolean(column.number); by = i; fill(); } }, column.title)));
    function order() {
      if (by < 0) return rows;
      const { key } = columns[by];
      return rows.map((row) => [key(row), row]).sort(([a], [b]) => {
        const missing = [a, b].map((value) => value === null || value === undefined || value === "");
        if (missing[0] || missing[1]) return missing[0] - missing[1];
        const step = typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
        return down ? -step : step;
      }).map(([, row]) => row);
    }
    function fill() {
      heads.forEach((head, i) => head.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
      const sorted = order();
      body.replaceChildren(...(all ? sorted : sorted.slice(0, shownAtFirst)).map((row) => h("tr", {}, columns.map((column) => column.cell(row)))));
      more.hidden = all;
    }
    fill();
    return h("div", { class: "sortable" }, h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), body)), more);
  };
})();
