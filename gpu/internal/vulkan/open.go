//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"errors"
	"fmt"

	"github.com/ebitengine/purego"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/spirv"
)

// instance is an instance of Vulkan (VkInstance) in an opened library. It is never destroyed.
type instance struct {
	handle      uintptr
	instanceAPI instanceFunctions
}

// Open opens all devices of the loader, or of all drivers if the loader is not installed. Devices that lack a required
// feature are not opened. The required features are Vulkan 1.2, a queue for compute, buffer addresses, timeline
// semaphores, 64-bit integers, and access to 8-bit and 16-bit memory. err joins the errors of libraries and devices
// that could not be opened. Both list and err can be set.
func Open() (list []device.Device, err error) {
	libraryNames := libraries()
	if len(libraryNames) == 0 {
		return nil, errors.New("vulkan: no driver is installed")
	}
	for _, library := range libraryNames {
		opened, openErr := openInstance(library)
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", library, openErr))
			continue
		}
		devices, openErr := opened.openDevices()
		err = errors.Join(err, openErr)
		list = append(list, devices...)
	}
	return list, err
}

// openInstance opens a library and creates an instance.
func openInstance(library string) (*instance, error) {
	getProcAddr, err := openLibrary(library)
	if err != nil {
		return nil, err
	}
	created := &instance{}
	var create uintptr
	if err := load(getProcAddr, 0, map[string]*uintptr{"CreateInstance": &create}); err != nil {
		return nil, err
	}
	application := applicationInfo{SType: sApplicationInfo, ApiVersion: version12}
	info := instanceCreateInfo{SType: sInstanceCreateInfo, PApplicationInfo: &application}
	if err := call(create, uintptr(ptr(&info)), 0, uintptr(ptr(&created.handle))); err != nil {
		return nil, err
	}
	return created, load(getProcAddr, created.handle, created.instanceAPI.byName())
}

// openDevices opens the devices of an instance. err joins the errors of the devices that could not be opened.
func (i *instance) openDevices() (list []device.Device, err error) {
	// The first call stores the number of devices. The second call stores their handles.
	var count uint32
	if err := call(i.instanceAPI.EnumeratePhysicalDevices, i.handle, uintptr(ptr(&count)), 0); err != nil {
		return nil, err
	}
	if count == 0 {
		return nil, errors.New("vulkan: there are no devices")
	}
	handles := make([]uintptr, count)
	err = call(i.instanceAPI.EnumeratePhysicalDevices, i.handle, uintptr(ptr(&count)), uintptr(ptr(&handles[0])))
	if err != nil {
		return nil, err
	}
	for _, physical := range handles[:count] {
		d := &dev{instance: i, physical: physical, buffers: map[uint64]*device.Buffer{}}
		if openErr := d.open(); openErr != nil {
			d.Close()
			err = errors.Join(err, fmt.Errorf("%s: %w", d.info.Name, openErr))
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
	queue, commands  uintptr // the queue for compute, and the only command buffer
	pool             uint64  // the pool of the command buffer
	semaphore        uint64  // the timeline semaphore that each submission increments
	signaled         uint64  // the value of the semaphore after the last submission
	memoryTypes      []memoryType
	buffers          map[uint64]*device.Buffer // by handle
	options          spirv.Options             // the rules for floats that modules may demand
	maxPushBytes     int                       // the maximum size of push constants
}

// addressBytes is the size in bytes of an address. All push constants are addresses.
const addressBytes = 8

func (d *dev) Info() device.Info { return d.info }

// open reads the properties of a device, creates its objects, and tests which operations it computes exactly.
func (d *dev) open() error {
	apiVersion := d.readProperties()
	if apiVersion < version12 {
		return errors.New("vulkan: the device lacks Vulkan 1.2")
	}
	features, err := d.enabledFeatures()
	if err != nil {
		return err
	}
	family, err := d.computeFamily()
	if err != nil {
		return err
	}
	priority := float32(1)
	queueInfo := deviceQueueCreateInfo{SType: sDeviceQueueCreateInfo, QueueFamilyIndex: family, QueueCount: 1,
		PQueuePriorities: &priority}
	deviceInfo := deviceCreateInfo{SType: sDeviceCreateInfo, PNext: chain(features), QueueCreateInfoCount: 1,
		PQueueCreateInfos: &queueInfo}
	err = call(d.instanceAPI.CreateDevice, d.physical, uintptr(ptr(&deviceInfo)), 0, uintptr(ptr(&d.handle)))
	if err != nil {
		return err
	}
	if err := load(d.instanceAPI.GetDeviceProcAddr, d.handle, d.api.byName()); err != nil {
		return err
	}
	purego.SyscallN(d.api.GetDeviceQueue, d.handle, uintptr(family), 0, uintptr(ptr(&d.queue)))
	if err := d.createObjects(family); err != nil {
		return err
	}
	hasFloat64 := features.Features.ShaderFloat64 != 0
	maxParams := d.maxPushBytes / addressBytes
	d.info.ExactOps, err = conform.Probe(hasFloat64, maxParams, device.RunOn(d))
	return err
}

// readProperties sets d.info, d.options, d.maxPushBytes and d.memoryTypes. It returns the latest version of Vulkan that
// the device supports.
func (d *dev) readProperties() uint32 {
	floats := physicalDeviceVulkan12Props{SType: sPhysicalDeviceVulkan12Props}
	properties := physicalDeviceProperties2{SType: sPhysicalDeviceProperties2, PNext: chain(&floats)}
	purego.SyscallN(d.instanceAPI.GetPhysicalDeviceProperties2, d.physical, uintptr(ptr(&properties)))
	kinds := map[uint32]string{typeDiscrete: "discrete", typeIntegrated: "integrated", typeProcessor: "processor"}
	d.info = device.Info{Name: goString(properties.Properties.DeviceName[:]), Driver: "vulkan", Kind: "other"}
	if kind, ok := kinds[properties.Properties.DeviceType]; ok {
		d.info.Kind = kind
	}
	d.maxPushBytes = int(properties.Properties.Limits.MaxPushConstantsSize)
	d.options = floatOptions(&floats)
	var memory memoryProperties
	purego.SyscallN(d.instanceAPI.GetPhysicalDeviceMemoryProperties, d.physical, uintptr(ptr(&memory)))
	d.memoryTypes = append(d.memoryTypes, memory.MemoryTypes[:memory.MemoryTypeCount]...)
	for _, heap := range memory.MemoryHeaps[:memory.MemoryHeapCount] {
		const deviceLocal = 1 // VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
		if heap.Flags&deviceLocal != 0 {
			d.info.Memory += int(heap.Size)
		}
	}
	return properties.Properties.ApiVersion
}

// floatOptions returns the rules for floats (rounding, subnormal numbers) that modules may demand of a device.
func floatOptions(floats *physicalDeviceVulkan12Props) spirv.Options {
	options := spirv.Options{
		Float32: spirv.Floats{DenormPreserve: floats.ShaderDenormPreserveFloat32 != 0,
			SignedZeroInfNan:    floats.ShaderSignedZeroInfNanPreserveFloat32 != 0,
			RoundingNearestEven: floats.ShaderRoundingModeRTEFloat32 != 0},
		Float64: spirv.Floats{DenormPreserve: floats.ShaderDenormPreserveFloat64 != 0,
			SignedZeroInfNan:    floats.ShaderSignedZeroInfNanPreserveFloat64 != 0,
			RoundingNearestEven: floats.ShaderRoundingModeRTEFloat64 != 0},
	}
	// Some devices cannot choose rules independently for each size. For these, a module may demand a rule for float64
	// only together with the same rule for float32.
	const independent = 1 // VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_ALL
	if floats.DenormBehaviorIndependence != independent {
		options.Float64.DenormPreserve = options.Float64.DenormPreserve && options.Float32.DenormPreserve
	}
	if floats.RoundingModeIndependence != independent {
		both := options.Float64.RoundingNearestEven && options.Float32.RoundingNearestEven
		options.Float64.RoundingNearestEven = both
	}
	return options
}

// enabledFeatures returns the features to enable: a linked list of three structs. It sets d.info.Float16. It returns an
// error if the device lacks a required feature. float64 is optional.
func (d *dev) enabledFeatures() (*physicalDeviceFeatures2, error) {
	supported12 := physicalDeviceVulkan12Features{SType: sPhysicalDeviceVulkan12Features}
	supported11 := physicalDeviceVulkan11Features{SType: sPhysicalDeviceVulkan11Features, PNext: chain(&supported12)}
	supported := physicalDeviceFeatures2{SType: sPhysicalDeviceFeatures2, PNext: chain(&supported11)}
	purego.SyscallN(d.instanceAPI.GetPhysicalDeviceFeatures2, d.physical, uintptr(ptr(&supported)))
	for name, isSupported := range map[string]uint32{"buffer addresses": supported12.BufferDeviceAddress,
		"timeline semaphores": supported12.TimelineSemaphore, "access to 8 bits": supported12.StorageBuffer8BitAccess,
		"access to 16 bits": supported11.StorageBuffer16BitAccess, "64-bit integers": supported.Features.ShaderInt64} {
		if isSupported == 0 {
			return nil, fmt.Errorf("vulkan: the device lacks %s", name)
		}
	}
	d.info.Float16 = supported12.ShaderFloat16 != 0
	enabled12 := &physicalDeviceVulkan12Features{SType: sPhysicalDeviceVulkan12Features, BufferDeviceAddress: 1,
		TimelineSemaphore: 1, StorageBuffer8BitAccess: 1}
	enabled11 := &physicalDeviceVulkan11Features{SType: sPhysicalDeviceVulkan11Features, PNext: chain(enabled12),
		StorageBuffer16BitAccess: 1}
	enabled := &physicalDeviceFeatures2{SType: sPhysicalDeviceFeatures2, PNext: chain(enabled11)}
	enabled.Features.ShaderInt64, enabled.Features.ShaderFloat64 = 1, supported.Features.ShaderFloat64
	return enabled, nil
}

// computeFamily returns the index of the first family of queues that can run kernels.
func (d *dev) computeFamily() (uint32, error) {
	// The first call stores the number of families. The second call stores their properties.
	var count uint32
	purego.SyscallN(d.instanceAPI.GetPhysicalDeviceQueueFamilyProperties, d.physical, uintptr(ptr(&count)), 0)
	if count > 0 {
		families := make([]queueFamilyProperties, count)
		purego.SyscallN(d.instanceAPI.GetPhysicalDeviceQueueFamilyProperties, d.physical, uintptr(ptr(&count)),
			uintptr(ptr(&families[0])))
		for index, family := range families[:count] {
			if family.QueueFlags&queueCompute != 0 {
				return uint32(index), nil
			}
		}
	}
	return 0, errors.New("vulkan: the device has no queue for compute")
}
