"""How the report looks: one style sheet for light, dark, phone and paper, and the few lines of script it has."""

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--panel:#f6f7f8;--ink:#1b1e21;--soft:#5a626a;--line:#dde1e4;--grid:#e9ecee;
--link:#1d5fa8;--held:#126b37;--held-bg:#e6f3ea;--failed:#b02318;--failed-bg:#fbe9e7;--open:#545c64;--open-bg:#eef0f2;
--measured:#0a6c6c;--inferred:#3452b4;--declared:#935600;--s1:#3452b4;--s2:#b5540a;--s3:#0a6c6c;--s4:#8a3b8f}
@media (prefers-color-scheme:dark){:root{--paper:#121518;--panel:#1a1e22;--ink:#e6e9eb;--soft:#a2abb3;--line:#333a41;
--grid:#262c32;--link:#86b7f2;--held:#6bcb92;--held-bg:#15281d;--failed:#ff9186;--failed-bg:#331b19;--open:#aab2ba;
--open-bg:#22282d;--measured:#55c4c0;--inferred:#93aaff;--declared:#e3a84f;--s1:#93aaff;--s2:#f0964b;--s3:#55c4c0;
--s4:#d79bdc}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",sans-serif;font-variant-numeric:tabular-nums}
.layout{max-width:74rem;margin:0 auto;padding:2.5rem 1.5rem 4rem;display:grid;
grid-template-columns:10.5rem minmax(0,1fr);gap:0 3.5rem}
header,footer{grid-column:1/-1}
main{min-width:0}
a{color:var(--link);text-decoration-thickness:1px;text-underline-offset:2px}
a:focus-visible,summary:focus-visible,input:focus-visible,.wide:focus-visible{outline:2px solid var(--link);
outline-offset:2px;border-radius:2px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--paper);padding:.4rem .8rem}
h1{font-size:2rem;line-height:1.2;letter-spacing:-.015em;font-weight:650;margin:.15rem 0 .3rem;overflow-wrap:anywhere}
h2{font-size:1.3rem;line-height:1.3;letter-spacing:-.01em;font-weight:620;margin:0 0 .3rem}
h3{font-size:1rem;font-weight:620;margin:1.8rem 0 .4rem}
p{margin:.4rem 0 .8rem;max-width:44rem}
.over-line{font-size:.8rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);margin:0}
.soft{color:var(--soft)}.nw{white-space:nowrap}.small{font-size:.86rem}
nav{position:sticky;top:1.5rem;align-self:start;font-size:.88rem}
nav ol{list-style:none;margin:0;padding:0}nav a{display:block;padding:.2rem 0;color:var(--soft);text-decoration:none}
nav a:hover{color:var(--link);text-decoration:underline}
tbody th .soft{font-weight:400}
main>section{padding:2.2rem 0;border-top:1px solid var(--line)}main>section:first-of-type{border-top:0;padding-top:0}
.claims{display:grid;grid-template-columns:repeat(3,minmax(0,1fr));gap:1rem;margin:.2rem 0 2.2rem}
.claim{border:1px solid var(--line);border-top:4px solid var(--tone);border-radius:6px;padding:.9rem 1.1rem 1rem;
display:flex;flex-direction:column}
.claim h2{font-size:1.08rem;margin:.5rem 0 .1rem}
.verdict{display:inline-flex;align-items:center;gap:.4rem;align-self:flex-start;font-weight:620;font-size:.86rem;
color:var(--tone);background:var(--tone-bg);padding:.12rem .6rem .14rem .45rem;border-radius:99px;margin:0}
.verdict svg{width:14px;height:14px}
.held{--tone:var(--held);--tone-bg:var(--held-bg)}.failed{--tone:var(--failed);--tone-bg:var(--failed-bg)}
.untested{--tone:var(--open);--tone-bg:var(--open-bg)}
.claim .number{font-size:1.75rem;font-weight:620;letter-spacing:-.02em;line-height:1.25;margin:.2rem 0 0}
.claim .number small{font-size:.86rem;font-weight:400;letter-spacing:0;color:var(--soft);white-space:nowrap}
.claim p.what{font-size:.88rem;margin:.5rem 0 0;overflow-wrap:anywhere}.claim p.why{font-size:.86rem;color:var(--soft);
margin:.3rem 0 0;overflow-wrap:anywhere}
.track{position:relative;height:14px;min-width:7rem;display:block}
.track::before{content:"";position:absolute;inset:6px 0 auto;height:2px;background:var(--line)}
.track i{position:absolute;top:3px;height:8px;border-radius:4px;background:var(--dot);opacity:.32;min-width:2px}
.track b{position:absolute;top:2px;width:10px;height:10px;margin-left:-5px;border-radius:50%;background:var(--dot)}
.track u{position:absolute;top:-1px;height:16px;width:2px;margin-left:-1px;background:var(--ink)}
.claim .track{--dot:var(--tone);margin:.6rem 0 .1rem}
.track{--dot:var(--s1)}.real .track{--dot:var(--ink)}
.two{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);gap:1.5rem 3rem;margin-top:1.6rem}
.one-and-a-half{grid-template-columns:minmax(0,7fr) minmax(0,5fr)}
dl{margin:.3rem 0;display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.25rem 1rem;font-size:.92rem}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;font-size:.9rem;margin:.4rem 0 .8rem}
caption{text-align:left;color:var(--soft);font-size:.86rem;padding-bottom:.3rem}
th,td{text-align:left;vertical-align:baseline;padding:.36rem .9rem .36rem 0;border-bottom:1px solid var(--grid)}
thead th{font-weight:560;color:var(--soft);font-size:.82rem;border-bottom:1px solid var(--line);white-space:nowrap}
tbody th{font-weight:560}td.n,th.n{text-align:right}td.nw,td.n{white-space:nowrap}
td:has(svg,.track){vertical-align:middle}
tr.real th::before{content:"";display:inline-block;width:.5rem;height:.5rem;border-radius:50%;background:var(--ink);
margin-right:.45rem}
.wide{overflow-x:auto;max-width:100%}table.many .soft.nw{white-space:normal}
code,.hash{font:.86em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{background:var(--panel);border-radius:6px;padding:.8rem 1rem;overflow-x:auto;font-size:.86rem;line-height:1.5}
.src{display:inline-flex;align-items:center;gap:.35rem;white-space:nowrap;font-size:.84rem;color:var(--c)}
.src::before{content:"";width:.55rem;height:.55rem;background:var(--c)}
.measured{--c:var(--measured)}.inferred{--c:var(--inferred)}.declared{--c:var(--declared)}
.src.inferred::before{border-radius:50%}.src.declared::before{clip-path:polygon(50% 0,100% 100%,0 100%)}
.key{display:flex;max-width:none;flex-wrap:wrap;
gap:.3rem 1.4rem;margin:.3rem 0 .8rem;font-size:.86rem;color:var(--soft)}
.flag{font-size:.8rem;color:var(--failed);white-space:nowrap}
ul.plain{margin:.3rem 0 .8rem;padding-left:1.15rem;max-width:46rem}
details{margin:.5rem 0}summary{cursor:pointer;color:var(--link);font-size:.92rem}
figure{margin:.8rem 0 1.4rem}figcaption{font-size:.86rem;color:var(--soft);max-width:44rem;margin-top:.3rem}
svg.chart{display:block;height:auto;max-width:100%}
.wide svg.chart.wide{min-width:46rem;width:100%}
.wide svg.chart.pairs{max-width:none}
.chart text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink);
font-variant-numeric:tabular-nums}
.chart text.num,.chart text.label{fill:var(--soft)}.chart text.corr{font-size:14px;fill:var(--soft)}
.chart text.corr.strong{fill:var(--failed);font-weight:620}.chart text.name{font-size:12px}
.chart text.lane{font-weight:560}.chart text.failure{fill:var(--failed)}.chart text.success{fill:var(--held)}
.chart .grid{stroke:var(--grid)}.chart .axis{stroke:var(--line)}.chart .cell{fill:none;stroke:var(--line)}
.chart .prior{stroke:var(--soft);stroke-width:1.4;stroke-dasharray:4 3}
.chart .fill{fill:var(--c);opacity:.42;stroke:var(--c);stroke-width:1}
.chart .bar{fill:var(--c);opacity:.75}.chart .tick{stroke:var(--ink);stroke-width:2}
.chart .belief{stroke:var(--inferred);stroke-width:2}
.chart .dots{stroke:var(--inferred);stroke-width:2.6;stroke-linecap:round;opacity:.5;fill:none}
.chart .s1{stroke:var(--s1)}.chart .s2{stroke:var(--s2)}.chart .s3{stroke:var(--s3)}.chart .s4{stroke:var(--s4)}
.chart .s1,.chart .s2,.chart .s3,.chart .s4{stroke-width:2;stroke-linejoin:round}
.chart .band{stroke:none;opacity:.14}.chart .band.s1{fill:var(--s1)}.chart .band.s2{fill:var(--s2)}
.chart .band.s3{fill:var(--s3)}.chart .band.s4{fill:var(--s4)}
.chart line.lane{stroke:var(--line);stroke-width:6;stroke-linecap:round}.chart .event{fill:var(--s1)}
.chart .join{stroke:var(--soft);stroke-width:1.2;stroke-dasharray:2 3}
.grid-of{display:grid;grid-template-columns:repeat(auto-fill,minmax(13.5rem,1fr));gap:1.1rem 1.4rem;margin:.6rem 0}
.grid-of>div{min-width:0}.grid-of .id{font-size:.86rem;overflow-wrap:anywhere;margin:0}
.shots{display:grid;grid-template-columns:repeat(auto-fit,minmax(17rem,1fr));gap:1.2rem}
.shots img{width:100%;height:auto;display:block;border-radius:4px;background:var(--panel)}
.over{position:relative;--cut:50%}.over img+img{position:absolute;inset:0;clip-path:inset(0 0 0 var(--cut))}
.over::after{content:"";position:absolute;top:0;bottom:0;left:var(--cut);width:2px;margin-left:-1px;background:#fff;
box-shadow:0 0 0 1px #0006;pointer-events:none}
.shots input{width:100%;margin:.4rem 0 0;accent-color:var(--s1)}
iframe{width:100%;height:32rem;border:1px solid var(--line);border-radius:6px}
footer{border-top:1px solid var(--line);margin-top:2rem;padding-top:1rem;font-size:.86rem;color:var(--soft)}
@media (max-width:62rem){.layout{display:block;padding:1.4rem 1.1rem 3rem}nav{position:static;margin-bottom:1.6rem}
nav ol{display:flex;flex-wrap:wrap;gap:0 1rem}h1{font-size:1.6rem}.claims,.two{grid-template-columns:minmax(0,1fr)}
.claim{padding:.8rem 1rem}iframe{height:30rem}}
@media (max-width:40rem){body{font-size:15px}table.many{min-width:40rem}caption{max-width:22rem}
.hero td:last-child,.hero th:last-child{display:none}}
@media print{:root{color-scheme:light;--paper:#fff;--panel:#f6f7f8;--ink:#000;--soft:#444b52;--line:#c9ced2;
--grid:#e3e6e8;--link:#000;--held:#126b37;--held-bg:#e6f3ea;--failed:#b02318;--failed-bg:#fbe9e7;--open:#545c64;--open-bg:#eef0f2;
--measured:#0a6c6c;--inferred:#3452b4;--declared:#935600;--s1:#3452b4;--s2:#b5540a;--s3:#0a6c6c;--s4:#8a3b8f}
@page{size:A4;margin:16mm 14mm}*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
html{font-size:9.5pt}body{font-size:10pt}.layout{display:block;max-width:none;padding:0}
nav,.skip,.shots input,#scene{display:none}
.claims{grid-template-columns:repeat(3,minmax(0,1fr));gap:.6rem}.claim .number{font-size:1.3rem}
.two{grid-template-columns:minmax(0,1fr) minmax(0,1fr)}main>section{padding:1.1rem 0}h2,h3{break-after:avoid}
figure,.claim,tr,.grid-of>div,dl{break-inside:avoid}.wide{overflow:visible}
.wide svg.chart.wide,table.many{min-width:0}.wide svg.chart.pairs{max-width:100%}
h2+*,h3+*,caption+thead,tbody tr:first-child{break-before:avoid}caption,thead{break-after:avoid}table{font-size:8.5pt}
td svg.chart.small{width:8rem}td .nw{white-space:normal}tbody th,td{overflow-wrap:break-word}
thead th{white-space:normal}pre{white-space:pre-wrap}details>*{display:block}a{text-decoration:none}}
"""

SCRIPT = (
    "for(const box of document.querySelectorAll('.shot')){const bar=box.querySelector('input'),"
    "over=box.querySelector('.over');if(bar&&over)bar.addEventListener('input',()=>"
    "over.style.setProperty('--cut',bar.value+'%'))}"
    "addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open=true))"
)
