(async function(){var g=document.getElementById('plotly-gz'),f=document.getElementById('figures');if(!g||!f||typeof DecompressionStream==='undefined')return;
try{var raw=atob(g.textContent.trim()),bytes=new Uint8Array(raw.length);for(var i=0;i<raw.length;i++)bytes[i]=raw.charCodeAt(i);
var text=await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
var s=document.createElement('script');s.textContent=text;document.head.appendChild(s);if(!window.Plotly)return;
var all=JSON.parse(f.textContent);for(var name of Object.keys(all)){var place=document.getElementById('panel-'+name);if(!place)continue;place.hidden=false;
await window.Plotly.newPlot(place,all[name].data,all[name].layout,{displaylogo:false,responsive:true})}
document.getElementById('panels-note').hidden=true}catch(e){document.querySelectorAll('.panel').forEach(function(p){p.hidden=true})}})();
