#!/bin/busybox sh
# Process 1 of the guest: mounts what everything needs, unpacks the job disk, hands over to the job.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sysfs /sys
$bb grep -q " /dev devtmpfs" /proc/mounts || $bb mount -t devtmpfs devtmpfs /dev
for module in virtio_pci virtio_blk virtio_console; do modprobe -q $module; done
tries=0
while ! disk=$($bb grep -lx rigjob /sys/block/vd*/serial 2>/dev/null); do
  tries=$((tries + 1))
  [ $tries -gt 200 ] && { echo "rig: no job disk" > /dev/ttyS0; $bb poweroff -f; }
  $bb sleep 0.05
done
disk=${disk%/serial}
$bb tar -x -C / -f /dev/${disk##*/}
. /rig/job/environment
[ "$RIG_CGROUPS" = systemd ] && exec /lib/systemd/systemd --unit=rig.service
exec $bb sh /rig/job/job.sh
