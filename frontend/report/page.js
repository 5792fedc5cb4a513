// What the page can do beyond being read: sort, filter, point, copy, fold. Without this script
// everything is there and open.
(function () {
  "use strict";
  var root = document.documentElement;
  root.classList.add("js");
  function all(selector, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(selector));
  }
  function id(name) { return document.getElementById(name); }

  // ---- light and dark -------------------------------------------------------------------------
  var theme = id("theme");
  function isDark() {
    var set = root.getAttribute("data-theme");
    return set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function setTheme(name) {
    root.setAttribute("data-theme", name);
    theme.textContent = name === "dark" ? "Light" : "Dark";
  }
  theme.textContent = isDark() ? "Light" : "Dark";
  theme.addEventListener("click", function () { setTheme(isDark() ? "light" : "dark"); });

  // ---- sorting --------------------------------------------------------------------------------
  var table = id("table");
  var heads = table ? all("thead th", table) : [];
  function key(row, column) {
    var text = row.cells[column].getAttribute("data-sort");
    return text === "" || text === null ? null : Number(text);
  }
  function sortBy(column, down) {
    var body = table.tBodies[0], rows = all("tr", body);
    rows.sort(function (a, b) {
      var x = key(a, column), y = key(b, column);
      if (x === null || y === null) return (x === null) - (y === null); // what is missing is last
      if (x !== y) return down ? y - x : x - y;
      return Number(a.dataset.cell) - Number(b.dataset.cell);
    });
    rows.forEach(function (row) { body.appendChild(row); });
    heads.forEach(function (th, i) {
      th.setAttribute("aria-sort", i === column ? (down ? "descending" : "ascending") : "none");
    });
  }
  heads.forEach(function (th, i) {
    var button = document.createElement("button");
    button.type = "button";
    while (th.firstChild) button.appendChild(th.firstChild);
    th.appendChild(button);
    th.setAttribute("aria-sort", i === 0 ? "ascending" : "none");
    button.addEventListener("click", function () {
      var now = th.getAttribute("aria-sort"), first = th.dataset.better === "higher";
      sortBy(i, now === "none" ? first : now === "ascending");
    });
  });

  // ---- filtering ------------------------------------------------------------------------------
  var filter = id("filter"), count = id("count"), rows = table ? all("tbody tr", table) : [];
  var marks = all("[data-cell]").filter(function (e) { return rows.indexOf(e) === -1; });
  function chosen() {
    return all(".chips").map(function (set) {
      return { axis: Number(set.dataset.axis),
               values: all("[aria-pressed=true]", set).map(function (b) { return b.dataset.value; }) };
    });
  }
  function applyFilter() {
    var words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), sets = chosen();
    var hidden = {}, shown = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase(), values = row.dataset.values.split(" ");
      var keep = words.every(function (w) { return text.indexOf(w) !== -1; });
      keep = keep && sets.every(function (s) {
        return s.values.length === 0 || s.values.indexOf(values[s.axis]) !== -1;
      });
      row.hidden = !keep;
      hidden[row.dataset.cell] = !keep;
      shown += keep;
    });
    marks.forEach(function (m) { m.classList.toggle("off", Boolean(hidden[m.dataset.cell])); });
    count.textContent = shown === rows.length ? shown + " cells" : shown + " of " + rows.length + " cells";
  }
  if (filter) {
    filter.addEventListener("input", applyFilter);
    all(".chips button").forEach(function (b) {
      b.addEventListener("click", function () {
        b.setAttribute("aria-pressed", String(b.getAttribute("aria-pressed") !== "true"));
        applyFilter();
      });
    });
  }

  // ---- curves ---------------------------------------------------------------------------------
  all("input[data-curve]").forEach(function (box) {
    box.addEventListener("change", function () {
      all(".curve[data-cell='" + box.dataset.curve + "']").forEach(function (line) {
        line.style.display = box.checked ? "" : "none";
      });
    });
  });

  // ---- tips -----------------------------------------------------------------------------------
  var tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  function place(mark) {
    var box = mark.getBoundingClientRect();
    tip.textContent = mark.dataset.tip;
    tip.hidden = false;
    var left = box.left + box.width / 2 - tip.offsetWidth / 2;
    var most = root.clientWidth - tip.offsetWidth - 8;
    var top = box.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, Math.min(left, most)) + scrollX + "px";
    tip.style.top = (top >= 4 ? top : box.bottom + 8) + scrollY + "px";
  }
  function hide() { tip.hidden = true; }
  all("svg.chart title").forEach(function (title) {
    var mark = title.parentNode;
    mark.dataset.tip = title.textContent;
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", title.textContent.replace(/\n/g, ", "));
    mark.removeChild(title);
    mark.addEventListener("pointerenter", function () { place(mark); });
    mark.addEventListener("pointerleave", hide);
    mark.addEventListener("focus", function () { place(mark); });
    mark.addEventListener("blur", hide);
  });
  addEventListener("keydown", function (e) { if (e.key === "Escape") hide(); });

  // ---- commands, the document -------------------------------------------------------------------
  function copy(text, done) {
    function old() {
      var area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      document.execCommand("copy");
      document.body.removeChild(area);
      done();
    }
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, old);
    else old();
  }
  all(".command").forEach(function (c) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", function () {
      copy(c.querySelector("pre").textContent, function () {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy"; }, 1500);
      });
    });
    c.appendChild(button);
  });
  var save = id("save");
  if (save) save.addEventListener("click", function () {
    var a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([id("data").textContent], { type: "application/json" }));
    a.download = "results.json";
    a.click();
    URL.revokeObjectURL(a.href);
  });

  // ---- folding ----------------------------------------------------------------------------------
  var folds = all("details");
  if (folds.length > 2) folds.forEach(function (d) { d.open = false; });
  addEventListener("beforeprint", function () {
    folds.forEach(function (d) { d.dataset.was = d.open; d.open = true; });
  });
  addEventListener("afterprint", function () {
    folds.forEach(function (d) { d.open = d.dataset.was === "true"; });
  });
  var unfold = id("unfold");
  if (unfold) unfold.addEventListener("click", function () {
    var open = folds.some(function (d) { return !d.open; });
    folds.forEach(function (d) { d.open = open; });
  });

  // ---- the address: #sort=3:down&q=words&v=0:1,1:0&theme=dark, or a place of the page --------------
  function follow() {
    var hash = location.hash.slice(1);
    try { hash = decodeURIComponent(hash); } catch (e) { /* as it stands */ }
    if (hash.indexOf("=") === -1) {
      var target = hash ? id(hash) : null;
      if (target && target.tagName === "DETAILS") {
        target.open = true;
        target.scrollIntoView();
      }
      return;
    }
    hash.split("&").forEach(function (part) {
      var name = part.split("=")[0], value = part.slice(name.length + 1);
      if (name === "theme" && (value === "dark" || value === "light")) setTheme(value);
      if (name === "sort" && heads[parseInt(value, 10)])
        sortBy(parseInt(value, 10), value.split(":")[1] === "down");
      if (name === "q" && filter) filter.value = value;
      if (name === "v") value.split(",").forEach(function (pair) {
        all(".chips[data-axis='" + parseInt(pair, 10) + "'] button").forEach(function (b) {
          if (b.dataset.value === pair.split(":")[1]) b.setAttribute("aria-pressed", "true");
        });
      });
    });
    if (filter) applyFilter();
  }
  addEventListener("hashchange", follow);
  follow();
})();
