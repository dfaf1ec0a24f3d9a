"""Links between GPUs: the matrix that ``nvidia-smi topo -m`` prints, what links are worth, which GPUs go together."""

from policies.lazy_import import door

__getattr__ = door(
    __name__,
    """
    annotation: ANNOTATION, joined_labels, labels_of, link_annotation, read_annotation
    choice: GpuAllocation, GpuRequest, LinkOptions, LinkPolicy, allocate
    cut: ChosenSet, best_set
    matrix: Link, LinkError, LinkMatrix, LinkMode, MAX_NVLINKS, MatrixGpu, MatrixNic, SELF, UNKNOWN, matrix_of
    matrix: pair_points, points_between, set_points
    places: GpuPlace, GpuPlaces, NodeDistance, places_of
    node_scores: FULL_SCORE, NodeScore, node_score, ranked_points
    text: link_of, read_links
    """,
)
