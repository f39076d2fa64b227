//go:build (linux || darwin) && (amd64 || arm64)

// Package vulkan runs kernels on Vulkan 1.2 without cgo. Kernels access buffers by their addresses, which are passed as
// push constants. The host waits for a device by a timeline semaphore. The value of the semaphore increases with each
// submission.
//
// Most functions of Vulkan take the address of a struct of parameters. The struct's field SType has the type of the
// struct. Its field PNext has the address of a struct of further parameters, or nil. The structs are in structs.go.
package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// instanceFunctions has the addresses of the functions that take an instance or a physical device. The name of a field
// is the function's name without the prefix vk.
type instanceFunctions struct {
	DestroyInstance, EnumeratePhysicalDevices, GetPhysicalDeviceProperties2, GetPhysicalDeviceFeatures2,
	GetPhysicalDeviceMemoryProperties, GetPhysicalDeviceQueueFamilyProperties, CreateDevice, GetDeviceProcAddr uintptr
}

// byName returns the fields by their names.
func (f *instanceFunctions) byName() map[string]*uintptr {
	return map[string]*uintptr{"DestroyInstance": &f.DestroyInstance,
		"EnumeratePhysicalDevices":               &f.EnumeratePhysicalDevices,
		"GetPhysicalDeviceProperties2":           &f.GetPhysicalDeviceProperties2,
		"GetPhysicalDeviceFeatures2":             &f.GetPhysicalDeviceFeatures2,
		"GetPhysicalDeviceMemoryProperties":      &f.GetPhysicalDeviceMemoryProperties,
		"GetPhysicalDeviceQueueFamilyProperties": &f.GetPhysicalDeviceQueueFamilyProperties,
		"CreateDevice":                           &f.CreateDevice, "GetDeviceProcAddr": &f.GetDeviceProcAddr}
}

// deviceFunctions has the addresses of the functions that take a logical device or an object of the device. The name of
// a field is the function's name without the prefix vk.
type deviceFunctions struct {
	DestroyDevice, GetDeviceQueue, CreateBuffer, DestroyBuffer, GetBufferMemoryRequirements, AllocateMemory, FreeMemory,
	BindBufferMemory, GetBufferDeviceAddress, MapMemory, CreateShaderModule, DestroyShaderModule, CreatePipelineLayout,
	DestroyPipelineLayout, CreateComputePipelines, DestroyPipeline, CreateCommandPool, DestroyCommandPool,
	AllocateCommandBuffers, BeginCommandBuffer, EndCommandBuffer, CmdBindPipeline, CmdPushConstants, CmdDispatch,
	CmdPipelineBarrier, CmdCopyBuffer, QueueSubmit, CreateSemaphore, DestroySemaphore, WaitSemaphores uintptr
}

// byName returns the fields by their names.
func (f *deviceFunctions) byName() map[string]*uintptr {
	return map[string]*uintptr{"DestroyDevice": &f.DestroyDevice, "GetDeviceQueue": &f.GetDeviceQueue,
		"CreateBuffer": &f.CreateBuffer, "DestroyBuffer": &f.DestroyBuffer,
		"GetBufferMemoryRequirements": &f.GetBufferMemoryRequirements, "AllocateMemory": &f.AllocateMemory,
		"FreeMemory": &f.FreeMemory, "BindBufferMemory": &f.BindBufferMemory,
		"GetBufferDeviceAddress": &f.GetBufferDeviceAddress, "MapMemory": &f.MapMemory,
		"CreateShaderModule": &f.CreateShaderModule, "DestroyShaderModule": &f.DestroyShaderModule,
		"CreatePipelineLayout": &f.CreatePipelineLayout, "DestroyPipelineLayout": &f.DestroyPipelineLayout,
		"CreateComputePipelines": &f.CreateComputePipelines, "DestroyPipeline": &f.DestroyPipeline,
		"CreateCommandPool": &f.CreateCommandPool, "DestroyCommandPool": &f.DestroyCommandPool,
		"AllocateCommandBuffers": &f.AllocateCommandBuffers, "BeginCommandBuffer": &f.BeginCommandBuffer,
		"EndCommandBuffer": &f.EndCommandBuffer, "CmdBindPipeline": &f.CmdBindPipeline,
		"CmdPushConstants": &f.CmdPushConstants, "CmdDispatch": &f.CmdDispatch,
		"CmdPipelineBarrier": &f.CmdPipelineBarrier, "CmdCopyBuffer": &f.CmdCopyBuffer, "QueueSubmit": &f.QueueSubmit,
		"CreateSemaphore": &f.CreateSemaphore, "DestroySemaphore": &f.DestroySemaphore, "WaitSemaphores": &f.WaitSemaphores}
}

// ptr is short for unsafe.Pointer in arguments of call.
type ptr = unsafe.Pointer

// call calls a function of the driver that returns a VkResult. If an argument is written as uintptr(ptr(&x)), the
// directive uintptrescapes keeps x on the heap and alive during the call.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) error {
	word, _, _ := purego.SyscallN(function, args...)
	if code := result(int32(word)); code < 0 { // positive codes are successes
		return code
	}
	return nil
}

// load finds functions by name and stores their addresses. getProcAddr is the address of vkGetInstanceProcAddr or
// vkGetDeviceProcAddr. object is the instance (0 for functions without an instance) or the device. The keys of
// `functions` are names without the prefix vk.
func load(getProcAddr, object uintptr, functions map[string]*uintptr) error {
	for name, address := range functions {
		cName := append([]byte("vk"+name), 0)
		*address, _, _ = purego.SyscallN(getProcAddr, object, uintptr(unsafe.Pointer(&cName[0])))
		if *address == 0 {
			return fmt.Errorf("%w: vk%s", errNoFunction, name)
		}
	}
	return nil
}

// chain returns the address of next, for the field PNext of the struct that precedes next in a list of parameters.
func chain[T any](next *T) *byte { return (*byte)(unsafe.Pointer(next)) }

// goString returns the characters of a C string before its terminating 0.
func goString(chars []int8) string {
	var text []byte
	for _, char := range chars {
		if char == 0 {
			break
		}
		text = append(text, byte(char))
	}
	return string(text)
}
