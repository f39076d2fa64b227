//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/spirv"
)

// instance is an instance of Vulkan in an opened library.
type instance struct {
	handle uintptr
	api    instanceFunctions
}

// Open opens all devices of the loader, or of all drivers if the loader is not installed. Devices that lack a required
// feature are not opened: Vulkan 1.2, a queue for compute, buffer addresses, timeline semaphores, 64-bit integers, and
// memory access to 8 and 16 bits. The error joins the reasons for libraries and devices that were not opened. It may be
// set although devices were opened.
func Open() (list []device.Device, err error) {
	names := libraries()
	if len(names) == 0 {
		return nil, errors.New("vulkan: no driver is installed")
	}
	for _, library := range names {
		i, e := openInstance(library)
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", library, e))
			continue
		}
		devices, e := i.open()
		err = errors.Join(err, e)
		list = append(list, devices...)
	}
	return list, err
}

// openInstance opens a library and creates an instance.
func openInstance(library string) (*instance, error) {
	get, err := entry(library)
	if err != nil {
		return nil, err
	}
	i := &instance{}
	var create uintptr
	if err := load(get, 0, map[string]*uintptr{"CreateInstance": &create}); err != nil {
		return nil, err
	}
	app := applicationInfo{SType: sApplicationInfo, ApiVersion: version12}
	info := instanceCreateInfo{SType: sInstanceCreateInfo, PApplicationInfo: &app}
	if err := call(create, uintptr(ptr(&info)), 0, uintptr(ptr(&i.handle))); err != nil {
		return nil, err
	}
	return i, load(get, i.handle, i.api.byName())
}

// open opens the devices of an instance.
func (i *instance) open() (list []device.Device, err error) {
	var n uint32
	if err := call(i.api.EnumeratePhysicalDevices, i.handle, uintptr(ptr(&n)), 0); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("vulkan: there are no devices")
	}
	handles := make([]uintptr, n)
	if err := call(i.api.EnumeratePhysicalDevices, i.handle, uintptr(ptr(&n)), uintptr(ptr(&handles[0]))); err != nil {
		return nil, err
	}
	for _, h := range handles[:n] {
		d := &dev{instance: i, physical: h, buffers: map[uint64]*device.Buffer{}}
		if e := d.open(); e != nil {
			d.Close()
			err = errors.Join(err, fmt.Errorf("%s: %w", d.info.Name, e))
			continue
		}
		list = append(list, d)
	}
	return list, err
}

// dev is an open device.
type dev struct {
	*instance
	api              deviceFunctions
	info             device.Info
	physical, handle uintptr // the physical device, and the logical device that was created for it
	queue, commands  uintptr // the queue for compute, and the command buffer
	pool             uint64  // the pool of the command buffer
	semaphore        uint64  // the timeline semaphore that each submission increments
	signaled         uint64  // the value of the semaphore after the last submission
	types            []memoryType
	buffers          map[uint64]*device.Buffer // by handle
	options          spirv.Options
	maxPush          int // the maximum size of push constants, in bytes
}

func (d *dev) Info() device.Info { return d.info }

// open reads the properties of a device, creates its objects, and tests which operations it computes exactly.
func (d *dev) open() error {
	apiVersion := d.properties()
	if apiVersion < version12 {
		return errors.New("vulkan: the device lacks Vulkan 1.2")
	}
	features, err := d.features()
	if err != nil {
		return err
	}
	family, err := d.computeFamily()
	if err != nil {
		return err
	}
	priority := float32(1)
	queue := deviceQueueCreateInfo{SType: sDeviceQueueCreateInfo, QueueFamilyIndex: family, QueueCount: 1,
		PQueuePriorities: &priority}
	info := deviceCreateInfo{SType: sDeviceCreateInfo, PNext: chain(features), QueueCreateInfoCount: 1,
		PQueueCreateInfos: &queue}
	err = call(d.instance.api.CreateDevice, d.physical, uintptr(ptr(&info)), 0, uintptr(ptr(&d.handle)))
	if err != nil {
		return err
	}
	if err := load(d.instance.api.GetDeviceProcAddr, d.handle, d.api.byName()); err != nil {
		return err
	}
	purego.SyscallN(d.api.GetDeviceQueue, d.handle, uintptr(family), 0, uintptr(ptr(&d.queue)))
	if err := d.createObjects(family); err != nil {
		return err
	}
	has64 := features.Features.ShaderFloat64 != 0
	d.info.Promise, err = conform.Probe(has64, d.maxPush/8, device.RunOn(d))
	return err
}

// properties reads the name, the limits and the rules for floats of the device. It returns the version of Vulkan that
// the device supports.
func (d *dev) properties() uint32 {
	v12 := physicalDeviceVulkan12Props{SType: sPhysicalDeviceVulkan12Props}
	p := physicalDeviceProperties2{SType: sPhysicalDeviceProperties2, PNext: chain(&v12)}
	purego.SyscallN(d.instance.api.GetPhysicalDeviceProperties2, d.physical, uintptr(ptr(&p)))
	kinds := map[uint32]string{typeDiscrete: "discrete", typeIntegrated: "integrated", typeProcessor: "processor"}
	d.info = device.Info{Name: goText(p.Properties.DeviceName[:]), Driver: "vulkan", Kind: "other"}
	if kind, ok := kinds[p.Properties.DeviceType]; ok {
		d.info.Kind = kind
	}
	d.maxPush = int(p.Properties.Limits.MaxPushConstantsSize)
	d.options = spirv.Options{
		Float32: spirv.Floats{DenormPreserve: v12.ShaderDenormPreserveFloat32 != 0,
			SignedZeroInfNan:    v12.ShaderSignedZeroInfNanPreserveFloat32 != 0,
			RoundingNearestEven: v12.ShaderRoundingModeRTEFloat32 != 0},
		Float64: spirv.Floats{DenormPreserve: v12.ShaderDenormPreserveFloat64 != 0,
			SignedZeroInfNan:    v12.ShaderSignedZeroInfNanPreserveFloat64 != 0,
			RoundingNearestEven: v12.ShaderRoundingModeRTEFloat64 != 0},
	}
	// If rules cannot be chosen independently for each size, a module may demand a rule for float64 only together with
	// the same rule for float32.
	const all = 1
	if v12.DenormBehaviorIndependence != all {
		d.options.Float64.DenormPreserve = d.options.Float64.DenormPreserve && d.options.Float32.DenormPreserve
	}
	if v12.RoundingModeIndependence != all {
		same := d.options.Float64.RoundingNearestEven && d.options.Float32.RoundingNearestEven
		d.options.Float64.RoundingNearestEven = same
	}
	var memory memoryProperties
	purego.SyscallN(d.instance.api.GetPhysicalDeviceMemoryProperties, d.physical, uintptr(ptr(&memory)))
	d.types = append(d.types, memory.MemoryTypes[:memory.MemoryTypeCount]...)
	for _, h := range memory.MemoryHeaps[:memory.MemoryHeapCount] {
		const local = 1 // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
		if h.Flags&local != 0 {
			d.info.Memory += int(h.Size)
		}
	}
	return p.Properties.ApiVersion
}

// features returns the features to enable. The structs of the chain are those of the device, without the features that
// kernels do not use.
func (d *dev) features() (*physicalDeviceFeatures2, error) {
	v12 := physicalDeviceVulkan12{SType: sPhysicalDeviceVulkan12}
	v11 := physicalDeviceVulkan11{SType: sPhysicalDeviceVulkan11, PNext: chain(&v12)}
	have := physicalDeviceFeatures2{SType: sPhysicalDeviceFeatures2, PNext: chain(&v11)}
	purego.SyscallN(d.instance.api.GetPhysicalDeviceFeatures2, d.physical, uintptr(ptr(&have)))
	for name, f := range map[string]uint32{"buffer addresses": v12.BufferDeviceAddress,
		"timeline semaphores": v12.TimelineSemaphore, "access to 8 bits": v12.StorageBuffer8BitAccess,
		"access to 16 bits": v11.StorageBuffer16BitAccess, "64-bit integers": have.Features.ShaderInt64} {
		if f == 0 {
			return nil, fmt.Errorf("vulkan: the device lacks %s", name)
		}
	}
	d.info.Float16 = v12.ShaderFloat16 != 0
	want12 := &physicalDeviceVulkan12{SType: sPhysicalDeviceVulkan12, BufferDeviceAddress: 1, TimelineSemaphore: 1,
		StorageBuffer8BitAccess: 1}
	want11 := &physicalDeviceVulkan11{SType: sPhysicalDeviceVulkan11, StorageBuffer16BitAccess: 1, PNext: chain(want12)}
	want := &physicalDeviceFeatures2{SType: sPhysicalDeviceFeatures2, PNext: chain(want11)}
	want.Features.ShaderInt64, want.Features.ShaderFloat64 = 1, have.Features.ShaderFloat64
	return want, nil
}

// computeFamily returns the first family of queues for compute.
func (d *dev) computeFamily() (uint32, error) {
	var n uint32
	purego.SyscallN(d.instance.api.GetPhysicalDeviceQueueFamilyProperties, d.physical, uintptr(ptr(&n)), 0)
	if n > 0 {
		families := make([]queueFamilyProperties, n)
		purego.SyscallN(d.instance.api.GetPhysicalDeviceQueueFamilyProperties, d.physical, uintptr(ptr(&n)),
			uintptr(unsafe.Pointer(&families[0])))
		for k, f := range families[:n] {
			if f.QueueFlags&queueCompute != 0 {
				return uint32(k), nil
			}
		}
	}
	return 0, errors.New("vulkan: the device has no queue for compute")
}
