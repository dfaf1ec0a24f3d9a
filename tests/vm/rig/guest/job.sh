# Runs one command in the guest and tells the host how it went, line by line, on the control port:
# "ready", "done", "output-lost" and "status N". What the command prints goes to the output port.
bb=/bin/busybox
$bb mkdir -p /out
. /rig/job/environment
if [ "$RIG_CGROUPS" = systemd ]; then
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
else
  $bb mkdir -p /dev/pts /dev/shm /dev/mqueue
  $bb mount -t devpts devpts /dev/pts
  $bb mount -t tmpfs tmpfs /dev/shm
  $bb mount -t tmpfs -o mode=755 tmpfs /run
  $bb mount -t tmpfs tmpfs /tmp
fi
$bb ln -sfn /proc/self/fd /dev/fd
for n in 0:stdin 1:stdout 2:stderr; do $bb ln -sf /proc/self/fd/${n%:*} /dev/${n#*:}; done
if [ "$RIG_CGROUPS" = systemd ]; then
  : # it has mounted cgroup v2
elif [ "$RIG_CGROUPS" = v1 ]; then
  $bb mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for controller in cpuset cpu cpuacct memory devices freezer blkio pids hugetlb name=systemd; do
    $bb mkdir /sys/fs/cgroup/${controller#name=}
    option=$controller
    [ $controller = name=systemd ] && option=none,$controller
    $bb mount -t cgroup -o $option cgroup /sys/fs/cgroup/${controller#name=}
  done
else
  $bb mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
  for controller in $($bb cat /sys/fs/cgroup/cgroup.controllers); do
    echo "+$controller" > /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
  done
fi
$bb hostname vm
$bb ip link set lo up
modprobe -q overlay
for port in /sys/class/virtio-ports/*; do
  $bb ln -sf /dev/${port##*/} /dev/rig.$($bb cat $port/name)
done
for cpu in $RIG_OFFLINE; do echo 0 > /sys/devices/system/cpu/cpu$cpu/online; done
echo ready > /dev/rig.control
cd /
$bb setsid $bb sh /rig/job/command < /dev/null > /dev/rig.output 2>&1
status=$?
echo done > /dev/rig.control
# What the command has left running is stopped: tar fails when a file changes while it is read.
kill -STOP -1
disk=$($bb grep -lx rigout /sys/block/vd*/serial)
disk=${disk%/serial}
/usr/bin/tar -c --exclude '*.sock' -C /out -f /dev/${disk##*/} . 2> /dev/rig.output || echo output-lost > /dev/rig.control
$bb sync
echo "status $status" > /dev/rig.control
$bb sleep 0.1
$bb poweroff -f
