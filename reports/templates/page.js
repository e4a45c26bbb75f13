(function () {
  var root = document.documentElement, search = document.getElementById("search"), pick = document.getElementById("pick"), said = document.getElementById("picked");
  root.classList.add("scripted");
  function holds(text, rank) {
    return text.split(",").some(function (part) { var ends = part.split("-"); return rank >= +ends[0] && rank <= +(ends[1] || ends[0]); });
  }
  var shapes = [].slice.call(document.querySelectorAll("[data-ranks]"));
  function choose(rank) {
    var on = rank !== null;
    root.classList.toggle("on", on);
    shapes.forEach(function (shape) { shape.classList.toggle("sel", on && holds(shape.getAttribute("data-ranks"), rank)); });
    pick.hidden = !on;
    document.dispatchEvent(new CustomEvent("chosen", {detail: rank}));
    if (!on) { return; }
    var row = document.querySelector("tr[data-ranks].sel");
    said.textContent = "rank " + rank + (row ? ": " + [].slice.call(row.cells, 2, 5).map(function (c) { return c.textContent.trim(); }).join(", ") : "");
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
    root.classList.toggle("on", text.length > 1); pick.hidden = true;
    shapes.forEach(function (shape) { shape.classList.toggle("sel", text.length > 1 && shape.textContent.toLowerCase().indexOf(text) >= 0); });
  });
  window.nccldoctor = {choose: choose, holds: holds, unpacked: unpacked};
  var start = /^#rank=(\d+)$/.exec(location.hash);
  if (start) { choose(+start[1]); }
})();
