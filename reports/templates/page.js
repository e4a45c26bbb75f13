(function(){var b=document.getElementById('copy'),t=document.getElementById('ticket-text');if(!b||!t||!navigator.clipboard)return;b.hidden=false;
b.addEventListener('click',function(){navigator.clipboard.writeText(t.textContent).then(function(){b.textContent='Copied';setTimeout(function(){b.textContent='Copy Markdown'},1500)})})})();
