"""Graphs of processors: declared, checked, compared and drawn. Pure: nothing here runs them."""

from windrow.graph.catalog import Catalog, bind_catalog, merge_catalogs
from windrow.graph.declaration import Graph
from windrow.graph.drawing import Figures, draw_text
from windrow.graph.errors import InvalidGraph, TopologyChanged
from windrow.graph.failures import error_context
from windrow.graph.kinds import Kind
from windrow.graph.messages import Message
from windrow.graph.policies import ErrorPolicy, OnError, Retry, Strategy
from windrow.graph.processors import Part, Processor, Source, declare, processor
from windrow.graph.queues import Queue
from windrow.graph.svg import draw_html, draw_svg
from windrow.graph.topology import Topology, check_unchanged, differences

__all__ = [
    "Catalog",
    "ErrorPolicy",
    "Figures",
    "Graph",
    "InvalidGraph",
    "Kind",
    "Message",
    "OnError",
    "Part",
    "Processor",
    "Queue",
    "Retry",
    "Source",
    "Strategy",
    "Topology",
    "TopologyChanged",
    "bind_catalog",
    "check_unchanged",
    "declare",
    "differences",
    "draw_html",
    "draw_svg",
    "draw_text",
    "error_context",
    "merge_catalogs",
    "processor",
]
