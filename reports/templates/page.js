(function () {
  var root = document.documentElement, search = document.getElementById("search"), pick = document.getElementById("pick"), said = document.getElementById("picked");
  root.classList.add("scripted");
  function holds(text, rank) {
    return text.split(",").some(function (part) { var ends = part.split("-"); return rank >= +ends[0] && rank <= +(ends[1] || ends[0]); });
  }
  var shapes = [].slice.call(document.querySelectorAll("[data-ranks]"));
  function told(row) {
    var heads = row.closest("table").tHead.rows[0].cells, words = {"State": "", "Where": "", "Waits for": "waits for ", "Ended by": "ended by "};
    return [].slice.call(row.cells, 1).map(function (cell, n) {
      var before = words[heads[n + 1].textContent], text = cell.textContent.trim().replace(/^\d+ \S+ groups · /, "");
      return before === undefined || text === "–" ? "" : before + text;
    }).filter(Boolean);
  }
  function none(what) { root.classList.remove("on"); pick.hidden = false; said.textContent = "No rank, host or group '" + what + "'."; }
  function choose(rank) {
    var on = rank !== null;
    root.classList.toggle("on", on);
    shapes.forEach(function (shape) { shape.classList.toggle("sel", on && holds(shape.getAttribute("data-ranks"), rank)); });
    pick.hidden = !on;
    document.dispatchEvent(new CustomEvent("chosen", {detail: rank}));
    if (!on) { return; }
    var row = document.querySelector("tr[data-ranks].sel");
    if (!row && !shapes.some(function (shape) { return shape.classList.contains("sel"); })) { none("rank " + rank); return; }
    said.textContent = "Rank " + rank + (row ? " · " + told(row).join(" · ") : "");
    if (location.hash !== "#rank=" + rank) { history.replaceState(null, "", "#rank=" + rank); }
  }
  function clear() { choose(null); if (search) { search.value = ""; } history.replaceState(null, "", location.pathname + location.search); }
  document.addEventListener("click", function (event) {
    var button = event.target.closest("[data-copy]");
    if (button) { navigator.clipboard.writeText(document.getElementById(button.getAttribute("data-copy")).textContent).then(function () { var text = button.textContent; button.textContent = "Copied"; setTimeout(function () { button.textContent = text; }, 1500); }); return; }
    var shape = event.target.closest("[data-ranks]");
    if (shape) { choose(parseInt(shape.getAttribute("data-ranks"), 10)); }
  });
  function unpacked(id) {
    var raw = atob(document.getElementById(id).textContent.trim()), bytes = new Uint8Array(raw.length);
    for (var i = 0; i < raw.length; i++) { bytes[i] = raw.charCodeAt(i); }
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }
  document.getElementById("download").addEventListener("click", function () {
    unpacked("document").then(function (text) {
      var link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], {type: "application/json"}));
      link.download = "nccldoctor.json"; link.click(); URL.revokeObjectURL(link.href);
    });
  });
  document.getElementById("clear").addEventListener("click", clear);
  document.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { clear(); }
    if (event.key === "/" && document.activeElement !== search) { event.preventDefault(); search.focus(); }
  });
  search.addEventListener("input", function () {
    var text = search.value.trim().toLowerCase(), number = /^(?:rank\s*)?(\d+)$/.exec(text);
    if (number) { choose(+number[1]); return; }
    var found = 0, span = /^(?:ranks?\s*)?(\d+)\s*-\s*(\d+)$/.exec(text), hit;
    shapes.forEach(function (shape) {
      if (span) { hit = false; for (var rank = +span[1]; rank <= +span[2] && !hit; rank++) { hit = holds(shape.getAttribute("data-ranks"), rank); } }
      else { hit = text.length > 1 && shape.textContent.toLowerCase().indexOf(text) >= 0; }
      shape.classList.toggle("sel", hit); found += hit;
    });
    root.classList.toggle("on", found > 0); pick.hidden = !found;
    said.textContent = found ? "'" + text + "' stands in " + found + " place" + (found > 1 ? "s" : "") + "." : "";
    if (!found && text.length > 1) { none(text); }
  });
  window.nccldoctor = {choose: choose, holds: holds, unpacked: unpacked};
  var start = /^#rank=(\d+)$/.exec(location.hash);
  if (start) { choose(+start[1]); }
})();
