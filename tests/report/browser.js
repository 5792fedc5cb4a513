// Appended to a page: uses it as a person would and writes what is wrong into #outcome.
(function () {
  "use strict";
  var wrong = [], checks = 0;
  function check(holds, what) { checks++; if (!holds) wrong.push(what); }
  function all(selector, within) {
    return Array.prototype.slice.call((within || document).querySelectorAll(selector));
  }
  function isShown(e) { return e.getClientRects().length > 0; }

  // ---- sorting ----
  function column(i) {
    return all("#table tbody tr").filter(isShown).map(function (row) {
      return row.cells[i].getAttribute("data-sort");
    }).filter(function (text) { return text !== ""; }).map(Number);
  }
  function rises(list) { return list.every(function (x, i) { return i === 0 || list[i - 1] <= x; }); }
  all("#table thead th").forEach(function (th, i) {
    var button = th.querySelector("button"), name = th.textContent;
    for (var click = 0; click < 2; click++) {
      button.click();
      var sort = th.getAttribute("aria-sort"), list = column(i);
      check(sort === "ascending" || sort === "descending", name + ": aria-sort is " + sort);
      check(rises(sort === "ascending" ? list : list.slice().reverse()), name + " is not sorted: " + list);
    }
    var missing = all("#table tbody tr").map(function (row) { return row.cells[i].getAttribute("data-sort") === ""; });
    check(missing.indexOf(true) === -1 || missing.lastIndexOf(false) < missing.indexOf(true),
          name + ": what is missing is not last");
    check(all("#table th[aria-sort$=ending]").length === 1, "two columns say that they are sorted");
  });

  // ---- filtering ----
  var filter = document.getElementById("filter"), rows = all("#table tbody tr");
  function type(text) {
    filter.value = text;
    filter.dispatchEvent(new Event("input"));
  }
  function shown() { return rows.filter(isShown); }
  if (filter) {
    type("no row has this");
    check(shown().length === 0, "a word that is nowhere leaves rows");
    check(all(".mark[data-cell]").every(function (m) { return m.classList.contains("off"); }), "marks stay");
    type("");
    check(shown().length === rows.length, "no word hides rows");
    all(".chips").forEach(function (set) {
      all("button", set).forEach(function (button) {
        button.click();
        var at = Number(set.dataset.axis), value = button.dataset.value;
        var want = rows.filter(function (r) { return r.dataset.values.split(" ")[at] === value; });
        check(shown().length === want.length && want.every(isShown), "the chip " + button.textContent);
        check(document.getElementById("count").textContent.indexOf(want.length + " of ") === 0 ||
              want.length === rows.length, "the number of rows");
        button.click();
      });
    });
    check(shown().length === rows.length, "chips that are off hide rows");
  }

  // ---- folds, links, tips ----
  var folds = all("details");
  check(folds.length < 3 || folds.every(function (d) { return !d.open; }), "folds begin open");
  all("a[href]").forEach(function (a) {
    var to = a.getAttribute("href");
    check(to[0] === "#" && document.getElementById(to.slice(1)), "a link to nowhere: " + to);
  });
  check(all(".command button").length === all(".command").length, "a command without a button");
  var mark = document.querySelector("svg.chart .mark[tabindex]"), tip = document.getElementById("tip");
  if (mark) {
    mark.focus();
    check(isShown(tip) && tip.textContent.length > 3, "no tip at a mark that has the focus");
    mark.blur();
    check(!isShown(tip), "the tip stays");
  }
  var ids = all("[id]").map(function (e) { return e.id; });
  check(ids.every(function (x, i) { return ids.indexOf(x) === i; }), "an id twice");
  check(JSON.parse(document.getElementById("data").textContent).cells.length === rows.length, "the document");

  // ---- light and dark: what is written can be read ----
  function luminance(rgb) {
    var c = rgb.map(function (x) {
      x /= 255;
      return x <= 0.04045 ? x / 12.92 : Math.pow((x + 0.055) / 1.055, 2.4);
    });
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2];
  }
  function numbers(colour) { return (colour.match(/[\d.]+/g) || []).map(Number); }
  function behind(e) {
    var layers = [], under = [255, 255, 255];
    for (; e; e = e.parentElement) layers.push(numbers(getComputedStyle(e).backgroundColor));
    layers.reverse().forEach(function (l) {
      var alpha = l.length > 3 ? l[3] : 1;
      under = under.map(function (u, i) { return u * (1 - alpha) + l[i] * alpha; });
    });
    return under;
  }
  function contrast(e) {
    var style = getComputedStyle(e), svg = e instanceof SVGElement;
    var a = luminance(numbers(svg ? style.fill : style.color)), b = luminance(behind(e));
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }
  function readable(theme) {
    all("body *").forEach(function (e) {
      var said = function (n) { return n.nodeType === 3 && n.nodeValue.trim(); };
      var own = Array.prototype.some.call(e.childNodes, said);
      if (!own || !isShown(e) || e.id === "tip" || e.id === "outcome") return;
      var c = contrast(e);
      check(c >= 4.5, theme + ": contrast " + c.toFixed(2) + " of <" + e.tagName + " class=" +
            e.getAttribute("class") + "> " + e.textContent.slice(0, 20));
    });
  }
  folds.forEach(function (d) { d.open = true; });
  var first = document.documentElement.getAttribute("data-theme");
  readable("first");
  document.getElementById("theme").click();
  check(document.documentElement.getAttribute("data-theme") !== first, "the theme does not change");
  readable("other");
  check(document.documentElement.scrollWidth <= document.documentElement.clientWidth,
        "the page is " + document.documentElement.scrollWidth + " pixels wide in a window of " +
        document.documentElement.clientWidth);

  // ---- the address ----
  addEventListener("hashchange", function () {
    check(all("#table th[aria-sort=descending]").length === (rows.length ? 1 : 0), "the address does not sort");
    var out = document.createElement("pre");
    out.id = "outcome";
    out.textContent = wrong.length ? "WRONG\n" + wrong.slice(0, 20).join("\n") : "RIGHT " + checks;
    document.body.appendChild(out);
  });
  location.hash = "#sort=0:down";
})();
