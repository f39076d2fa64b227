//go:build (linux || darwin) && (amd64 || arm64)

// Package vulkan runs kernels on Vulkan 1.2 without cgo. It uses buffers by address, push constants, and one timeline
// semaphore for each device.
package vulkan

import (
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// instanceFunctions has the addresses of functions of an instance. The fields have the functions' names without vk.
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

// deviceFunctions has the addresses of functions of a device. The fields have the functions' names without vk.
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

// ptr is short for unsafe.Pointer in arguments of call. Only the conversion uintptr(ptr(&x)) in the argument itself
// keeps x on the heap and alive during the call.
type ptr = unsafe.Pointer

// call calls a function of the driver that returns a VkResult.
//
//go:uintptrescapes
func call(f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	if code := result(int32(r)); code < 0 {
		return code
	}
	return nil
}

// load finds functions by name and stores their addresses. get is the address of vkGetInstanceProcAddr or
// vkGetDeviceProcAddr, and object the instance or the device.
func load(get, object uintptr, functions map[string]*uintptr) error {
	for name, f := range functions {
		text := append([]byte("vk"+name), 0)
		*f, _, _ = purego.SyscallN(get, object, uintptr(unsafe.Pointer(&text[0])))
		if *f == 0 {
			return fmt.Errorf("%w: vk%s", errNoFunction, name)
		}
	}
	return nil
}

// chain returns the address of a struct for the field PNext of another one. Vulkan passes optional parameters as such
// linked lists.
func chain[T any](next *T) *byte { return (*byte)(unsafe.Pointer(next)) }

// goText returns the text of a C string in an array.
func goText(s []int8) string {
	var b []byte
	for _, c := range s {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	return string(b)
}
