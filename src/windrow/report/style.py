"""What every page looks like: by the reader's light or dark setting, and on paper."""

from __future__ import annotations

STYLE = """\
:root{color-scheme:light dark;--ink:#1d2733;--soft:#5a6877;--paper:#fff;--line:#d5dce3;\
--good:#17663a;--bad:#b3261e;--odd:#7a5200;--band:#b3261e1f;\
--s0:#0060a8;--s1:#b34700;--s2:#0a7a55;--s3:#8a3a7c;--s4:#4d5b6a;--s5:#7a6400}
@media (prefers-color-scheme:dark){:root{--ink:#e6ebf1;--soft:#a6b5c4;--paper:#12181f;\
--line:#33404d;--good:#6fd39a;--bad:#ff9a90;--odd:#f2c063;--band:#ff9a9026;\
--s0:#6cb6ff;--s1:#ffa657;--s2:#56d3a4;--s3:#e3a0d6;--s4:#b8c4d0;--s5:#e0cc5a}}
body{background:var(--paper);color:var(--ink);max-width:62rem;margin:2rem auto;padding:0 1rem;\
font:15px/1.5 ui-sans-serif,system-ui,sans-serif}
h1{margin-bottom:.3rem}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
table{border-collapse:collapse;margin:1rem 0;min-width:50%}
caption{text-align:left;font-weight:600;padding-bottom:.3rem}
th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);\
vertical-align:top}
thead th{color:var(--soft);font-weight:600}
tbody th{font-weight:500}
.number{text-align:right;font-variant-numeric:tabular-nums}
td.number{white-space:nowrap}
.scrolls{overflow-x:auto}
.verdict{display:inline-block;border:1.5px solid;border-radius:1rem;padding:0 .7rem;\
font-weight:600;white-space:nowrap}
.verdict.pass{color:var(--good)}.verdict.fail{color:var(--bad)}.verdict.unknown{color:var(--odd)}
figure{margin:1.5rem 0}figcaption{font-weight:600}
.plot{width:100%;height:auto;font:12px ui-sans-serif,system-ui,sans-serif}
.plot text{fill:var(--ink)}.plot .note{fill:var(--soft)}
.plot .end{text-anchor:end}.plot .middle{text-anchor:middle}
.grid{stroke:var(--line);fill:none}
.line{fill:none;stroke-width:2}
.line.s0{stroke:var(--s0)}.line.s1{stroke:var(--s1);stroke-dasharray:6 3}
.line.s2{stroke:var(--s2);stroke-dasharray:2 3}.line.s3{stroke:var(--s3);stroke-dasharray:9 3 2 3}
.line.s4{stroke:var(--s4);stroke-dasharray:12 4}.line.s5{stroke:var(--s5);stroke-dasharray:4 6}
.bar.s0{fill:var(--s0)}.bar.s1{fill:var(--s1)}.bar.s2{fill:var(--s2)}.bar.s3{fill:var(--s3)}
.bar.s4{fill:var(--s4)}.bar.s5{fill:var(--s5)}
.mark path{stroke:var(--bad);stroke-dasharray:3 3}.mark .band{fill:var(--band)}
.mark text{fill:var(--bad)}
.legend{list-style:none;padding:0;display:flex;gap:1.5rem;flex-wrap:wrap}
.key{width:30px;height:8px;margin-right:.5rem}
summary{cursor:pointer;color:var(--soft)}
@media print{body{max-width:none;margin:0}}
"""
