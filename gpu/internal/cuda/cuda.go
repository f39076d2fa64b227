//go:build linux && (amd64 || arm64)

// Package cuda runs kernels through CUDA's driver API without cgo. Kernels are passed to the driver as PTX.
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/graphrun/graphrun/internal/gpu/conform"
	"github.com/graphrun/graphrun/internal/gpu/device"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/ptx"
)

// library is the shared library of the driver API, a part of NVIDIA's driver.
const library = "libcuda.so.1"

// functions has the addresses of functions of the driver API. The name of a field is the function's name without the
// prefix cu and the version suffix.
type functions struct {
	Init, DeviceGetCount, DeviceGet, DeviceGetName, DeviceGetAttribute, DeviceTotalMem, DevicePrimaryCtxRetain,
	DevicePrimaryCtxRelease, CtxSetCurrent, MemAlloc, MemFree, MemHostAlloc, MemFreeHost, MemcpyAsync, ModuleLoadDataEx,
	ModuleUnload, ModuleGetFunction, LaunchKernel, StreamCreate, StreamDestroy, StreamSynchronize uintptr
}

// byName returns pointers to the fields, keyed by the symbols of the library.
func (f *functions) byName() map[string]*uintptr {
	return map[string]*uintptr{"cuInit": &f.Init, "cuDeviceGetCount": &f.DeviceGetCount, "cuDeviceGet": &f.DeviceGet,
		"cuDeviceGetName": &f.DeviceGetName, "cuDeviceGetAttribute": &f.DeviceGetAttribute,
		"cuDeviceTotalMem_v2": &f.DeviceTotalMem, "cuDevicePrimaryCtxRetain": &f.DevicePrimaryCtxRetain,
		"cuDevicePrimaryCtxRelease_v2": &f.DevicePrimaryCtxRelease, "cuCtxSetCurrent": &f.CtxSetCurrent,
		"cuMemAlloc_v2": &f.MemAlloc, "cuMemFree_v2": &f.MemFree, "cuMemHostAlloc": &f.MemHostAlloc,
		"cuMemFreeHost": &f.MemFreeHost, "cuMemcpyAsync": &f.MemcpyAsync, "cuModuleLoadDataEx": &f.ModuleLoadDataEx,
		"cuModuleUnload": &f.ModuleUnload, "cuModuleGetFunction": &f.ModuleGetFunction,
		"cuLaunchKernel": &f.LaunchKernel, "cuStreamCreate": &f.StreamCreate, "cuStreamDestroy_v2": &f.StreamDestroy,
		"cuStreamSynchronize": &f.StreamSynchronize}
}

// status is a CUresult.
type status int32

// Error returns the name of a frequent error, or the number of any other error.
func (s status) Error() string {
	names := map[status]string{1: "invalid value", 2: "out of memory", 3: "not initialized", 100: "no device",
		218: "invalid PTX", 700: "illegal address", 719: "launch failed"}
	if name, ok := names[s]; ok {
		return "cuda: " + name
	}
	return fmt.Sprintf("cuda: error %d", int32(s))
}

// call calls a function of the driver that returns a CUresult.
//
//go:uintptrescapes
func call(function uintptr, args ...uintptr) error {
	if code, _, _ := purego.SyscallN(function, args...); int32(code) != 0 {
		return status(int32(code))
	}
	return nil
}

// ptr is short for unsafe.Pointer in arguments of call. Only the conversion uintptr(ptr(&x)) in the argument itself
// keeps x on the heap and alive during the call.
type ptr = unsafe.Pointer

// Open opens all devices. err joins the errors of devices that could not be opened. Both list and err can be set.
func Open() (list []device.Device, err error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("cuda: the driver is not installed: %w", err)
	}
	api := &functions{}
	for name, address := range api.byName() {
		if *address, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("cuda: the driver lacks a function: %w", err)
		}
	}
	if err := call(api.Init, 0); err != nil {
		return nil, err
	}
	var count int32
	if err := call(api.DeviceGetCount, uintptr(ptr(&count))); err != nil {
		return nil, err
	}
	for index := range count {
		opened := &dev{api: api}
		if openErr := opened.open(index); openErr != nil {
			opened.Close()
			err = errors.Join(err, fmt.Errorf("device %d: %w", index, openErr))
			continue
		}
		list = append(list, opened)
	}
	return list, err
}

// dev is an open device with its primary context and a stream.
type dev struct {
	api             *functions
	info            device.Info
	ordinal         int32   // CUDA's CUdevice
	context, stream uintptr // CUDA's CUcontext and CUstream
	processor       string  // the target of the PTX code, such as sm_80
}

func (d *dev) Info() device.Info { return d.info }

// maxParams is the maximum number of parameters of a kernel. PTX permits 512 parameters (4 KB, 8 bytes each).
const maxParams = 64

// open opens the device with an index in the driver's list, creates its stream, and tests which operations the device
// computes exactly.
func (d *dev) open(index int32) error {
	if err := call(d.api.DeviceGet, uintptr(ptr(&d.ordinal)), uintptr(index)); err != nil {
		return err
	}
	if err := d.retainContext(); err != nil {
		return err
	}
	const nonBlocking = 1 // CU_STREAM_NON_BLOCKING
	err := d.inContext(func() error { return call(d.api.StreamCreate, uintptr(ptr(&d.stream)), nonBlocking) })
	if err != nil {
		return err
	}
	const hasFloat64 = true
	// ExactOps lists the operations that the device computes exactly.
	d.info.ExactOps, err = conform.Probe(hasFloat64, maxParams, device.RunOn(d))
	return err
}

// retainContext retains the primary context of the device. It sets d.processor, and all fields of d.info except
// ExactOps.
func (d *dev) retainContext() error {
	name := make([]byte, 256)
	var major, minor, integrated int32
	var memory uint64
	const attributeIntegrated, attributeMajor, attributeMinor = 18, 75, 76 // values of CUdevice_attribute
	ordinal := uintptr(d.ordinal)
	if err := errors.Join(call(d.api.DeviceGetName, uintptr(ptr(&name[0])), uintptr(len(name)), ordinal),
		call(d.api.DeviceGetAttribute, uintptr(ptr(&major)), attributeMajor, ordinal),
		call(d.api.DeviceGetAttribute, uintptr(ptr(&minor)), attributeMinor, ordinal),
		call(d.api.DeviceGetAttribute, uintptr(ptr(&integrated)), attributeIntegrated, ordinal),
		call(d.api.DeviceTotalMem, uintptr(ptr(&memory)), ordinal),
		call(d.api.DevicePrimaryCtxRetain, uintptr(ptr(&d.context)), ordinal)); err != nil {
		return err
	}
	goName, _, _ := strings.Cut(string(name), "\x00")
	d.info = device.Info{Name: goName, Driver: "cuda", Kind: "discrete", Memory: int(memory), Float16: major >= 6}
	if integrated != 0 {
		d.info.Kind = "integrated"
	}
	if major < 7 {
		return errors.New("cuda: the device is older than sm_70")
	}
	d.processor = fmt.Sprintf("sm_%d%d", major, minor)
	if major > 8 || major == 8 && minor > 0 {
		d.processor = "sm_80" // the latest target of PTX 7.0; drivers compile it for later processors
	}
	return nil
}

// inContext calls f on a thread of the operating system, with the context of the device as the thread's current CUDA
// context. Most functions of the driver require this.
func (d *dev) inContext(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := call(d.api.CtxSetCurrent, d.context); err != nil {
		return err
	}
	return f()
}

// Close destroys the stream and releases the context.
func (d *dev) Close() {
	if d.context == 0 {
		return
	}
	_ = d.inContext(func() error { return call(d.api.StreamDestroy, d.stream) })
	_ = call(d.api.DevicePrimaryCtxRelease, uintptr(d.ordinal))
	d.context = 0
}

// Alloc implements device.Device. If hostAccess is true, it allocates memory of the host, which the device accesses at
// the same address.
func (d *dev) Alloc(bytes int, hostAccess bool) (*device.Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("cuda: a buffer has %d bytes: want at least 1", bytes)
	}
	created := &device.Buffer{Size: bytes}
	return created, d.inContext(func() error {
		if !hostAccess {
			created.Free = func() { _ = d.inContext(func() error { return call(d.api.MemFree, uintptr(created.Address)) }) }
			return call(d.api.MemAlloc, uintptr(ptr(&created.Address)), uintptr(bytes))
		}
		var hostMemory unsafe.Pointer
		const portableAndMapped = 3 // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
		if err := call(d.api.MemHostAlloc, uintptr(ptr(&hostMemory)), uintptr(bytes), portableAndMapped); err != nil {
			return err
		}
		created.Address, created.Bytes = uint64(uintptr(hostMemory)), unsafe.Slice((*byte)(hostMemory), bytes)
		created.Free = func() { _ = d.inContext(func() error { return call(d.api.MemFreeHost, uintptr(hostMemory)) }) }
		return nil
	})
}

// kernel is a compiled kernel: a module of CUDA with one function.
type kernel struct {
	owner            *dev
	module, function uintptr
	params, threads  int // number of parameters, and of threads in a group
}

// Free unloads the module. No run may use it afterwards.
func (k *kernel) Free() {
	_ = k.owner.inContext(func() error { return call(k.owner.api.ModuleUnload, k.module) })
}

// Compile implements device.Device.
func (d *dev) Compile(source *ir.Kernel) (device.Kernel, error) {
	ptxCode, err := ptx.Module(source, d.processor)
	if err != nil {
		return nil, err
	}
	compiled := &kernel{owner: d, params: source.Params, threads: source.GroupSize}
	return compiled, d.inContext(func() error {
		image, name, log := append([]byte(ptxCode), 0), []byte("main\x00"), make([]byte, 1<<13)
		const errorLog, errorLogSize = 5, 6 // values of CUjit_option
		options := [2]int32{errorLog, errorLogSize}
		values := struct { // one word for each option
			log  *byte
			size uint64
		}{&log[0], uint64(len(log))}
		if err := call(d.api.ModuleLoadDataEx, uintptr(ptr(&compiled.module)), uintptr(ptr(&image[0])),
			uintptr(len(options)), uintptr(ptr(&options[0])), uintptr(ptr(&values))); err != nil {
			message, _, _ := strings.Cut(string(log), "\x00")
			return fmt.Errorf("%w: %s", err, message)
		}
		return call(d.api.ModuleGetFunction, uintptr(ptr(&compiled.function)), compiled.module, uintptr(ptr(&name[0])))
	})
}

// Run implements device.Device. CUDA runs the steps of a stream in order, so no synchronization is needed between them.
func (d *dev) Run(steps []device.Step) error {
	return d.inContext(func() error {
		for _, step := range steps {
			if err := d.launch(step); err != nil {
				return errors.Join(err, call(d.api.StreamSynchronize, d.stream))
			}
		}
		return call(d.api.StreamSynchronize, d.stream)
	})
}

// launch starts a step on the stream of the device.
func (d *dev) launch(step device.Step) error {
	if step.Kernel == nil {
		if !step.CopyFits() {
			return errors.New("cuda: a copy has no buffer, or exceeds a buffer")
		}
		return call(d.api.MemcpyAsync, uintptr(step.To.Address)+uintptr(step.ToOffset),
			uintptr(step.From.Address)+uintptr(step.FromOffset), uintptr(step.Bytes), d.stream)
	}
	compiled, ok := step.Kernel.(*kernel)
	if !ok || compiled.owner != d || len(step.Addresses) != compiled.params || step.Groups < 1 {
		return errors.New("cuda: a launch has a kernel of another device, a wrong number of addresses, or no groups")
	}
	arguments := make([]*uint64, compiled.params+1) // one more element than needed, so that element 0 exists
	for i := range step.Addresses {
		arguments[i] = &step.Addresses[i]
	}
	x, y := device.Grid(step.Groups)
	// The grid has x*y*1 groups, and a group threads*1*1 threads. There are 0 bytes of dynamic shared memory and no
	// extra options.
	return call(d.api.LaunchKernel, compiled.function, uintptr(x), uintptr(y), 1, uintptr(compiled.threads), 1, 1, 0,
		d.stream, uintptr(ptr(&arguments[0])), 0)
}
