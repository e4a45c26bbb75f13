(async function () {
  var places = [].slice.call(document.querySelectorAll("[data-figure]")), theme = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
  if (!places.length || typeof DecompressionStream === "undefined") { return; }
  var figures = JSON.parse(document.getElementById("figures").textContent), drawn = [];
  function shown(name) { return figures[name][system.matches !== theme.checked ? "dark" : "light"]; }
  function light(panel, rank) {
    panel.data.forEach(function (trace, n) {
      if (!trace.customdata) { return; }
      var found = []; trace.customdata.forEach(function (ranks, at) { if (rank !== null && window.nccldoctor.holds(String(ranks), rank)) { found.push(at); } });
      window.Plotly.restyle(panel, {selectedpoints: [rank === null ? null : found]}, [n]);
    });
  }
  try {
    var script = document.createElement("script");
    script.textContent = await window.nccldoctor.unpacked("plotly");
    document.head.appendChild(script);
    for (var place of places) {
      var name = place.getAttribute("data-figure"), panel = document.createElement("div");
      if (!figures[name]) { continue; }
      panel.className = "panel"; place.appendChild(panel);
      await window.Plotly.newPlot(panel, shown(name).data, shown(name).layout, {displaylogo: false, responsive: !shown(name).layout.width});
      place.classList.add("drawn"); drawn.push([panel, name]);
      panel.on("plotly_click", function (event) { var ranks = event.points[0].customdata; if (ranks !== undefined) { window.nccldoctor.choose(parseInt(ranks, 10)); } });
    }
    function turn() { drawn.forEach(function (pair) { window.Plotly.react(pair[0], shown(pair[1]).data, shown(pair[1]).layout); }); }
    theme.addEventListener("change", turn); system.addEventListener("change", turn);
    document.addEventListener("chosen", function (event) { drawn.forEach(function (pair) { light(pair[0], event.detail); }); });
    document.documentElement.classList.add("zoomable");
  } catch (error) { places.forEach(function (place) { place.classList.remove("drawn"); var panel = place.querySelector(".panel"); if (panel) { panel.remove(); } }); }
})();
