"""Devices of a node that are given out together by their place: GPUs, NICs and FPGAs, whole, shared or as VFs."""

from policies.lazy_import import door

__getattr__ = door(
    __name__,
    """
    allocate: CannotAllocate, DeviceAllocation, DeviceAllocator, DeviceAttempt, DeviceQuestion
    annotations: ALLOCATE_HINT, DOMAIN, HINT, JOINT, JOINT_ALLOCATE, PARTITION_SPEC, SPEC, read_annotations
    candidates: DeviceCandidate
    demand: DemandError
    hints: can_meet, device_hints, hints_on
    joint: Closeness, JointChoice
    label_selector: AnnotationError, CONDITION, SELECTOR
    model: DEVICE_TYPES, DeviceInventory, EMPTY_INVENTORY, GPU, GPU_MEMORY, GpuPartition, InventoryDevice
    model: PcieGroup, PciePath, RDMA, Statement, TYPES, VfGroup, VirtualFunction, WHOLE, natural_order, pcie_groups
    partitions: NODE_DOMAIN, partition_rule
    plugin_chooser: Chooser, KnownCloseness, chooser_of
    plugin_offer: DeviceOffer, OfferForm, OfferedDevice, OfferedDevices, WHOLE_DEVICES, offer_of, offered_devices
    plugin_variables: ANNOTATION_PREFIX, PluginVariableError, VARIABLE_PREFIX, VF_UNITS, allocated_annotations
    plugin_variables: allocated_variables, read_annotated
    resources: GPU_CORE, GPU_MEMORY_RATIO, OTHERS, RESOURCES, WHOLE_GPUS, full_name
    sources: JoinedDevices, Piece
    usage: DeviceUse, Usage, taken, usage_of
    """,
)
