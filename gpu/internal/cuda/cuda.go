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

// library has the driver API. It is part of NVIDIA's driver.
const library = "libcuda.so.1"

// functions has the addresses of functions of the driver API. The fields have the functions' names without cu and
// without version suffix.
type functions struct {
	Init, DeviceGetCount, DeviceGet, DeviceGetName, DeviceGetAttribute, DeviceTotalMem, DevicePrimaryCtxRetain,
	DevicePrimaryCtxRelease, CtxSetCurrent, MemAlloc, MemFree, MemHostAlloc, MemFreeHost, MemcpyAsync, ModuleLoadDataEx,
	ModuleUnload, ModuleGetFunction, LaunchKernel, StreamCreate, StreamDestroy, StreamSynchronize uintptr
}

// byName returns the fields by the full names of the functions.
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

// Error returns the name of an error that drivers return often.
func (s status) Error() string {
	names := map[status]string{1: "invalid value", 2: "out of memory", 3: "not initialized", 100: "no device",
		218: "invalid PTX", 700: "illegal address", 719: "launch failed"}
	if name, ok := names[s]; ok {
		return "cuda: " + name
	}
	return fmt.Sprintf("cuda: error %d", int32(s))
}

// call calls a function of the driver.
//
//go:uintptrescapes
func call(f uintptr, args ...uintptr) error {
	if r, _, _ := purego.SyscallN(f, args...); int32(r) != 0 {
		return status(int32(r))
	}
	return nil
}

// ptr is short for unsafe.Pointer in arguments of call.
type ptr = unsafe.Pointer

// Open opens all devices. The error joins the reasons for devices that were not opened.
func Open() (list []device.Device, err error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("cuda: the driver is not installed: %w", err)
	}
	f := &functions{}
	for name, to := range f.byName() {
		if *to, err = purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("cuda: the driver lacks a function: %w", err)
		}
	}
	if err := call(f.Init, 0); err != nil {
		return nil, err
	}
	var n int32
	if err := call(f.DeviceGetCount, uintptr(ptr(&n))); err != nil {
		return nil, err
	}
	for k := range n {
		d := &dev{api: f}
		if e := d.open(k); e != nil {
			d.Close()
			err = errors.Join(err, fmt.Errorf("device %d: %w", k, e))
			continue
		}
		list = append(list, d)
	}
	return list, err
}

// dev is an open device with its primary context and a stream.
type dev struct {
	api             *functions
	info            device.Info
	ordinal         int32
	context, stream uintptr
	processor       string // such as sm_80
}

func (d *dev) Info() device.Info { return d.info }

// maxParams bounds the parameters of a kernel far below the 4 KB that PTX allows.
const maxParams = 64

// open opens device k, and tests which operations it computes exactly.
func (d *dev) open(k int32) error {
	if err := call(d.api.DeviceGet, uintptr(ptr(&d.ordinal)), uintptr(k)); err != nil {
		return err
	}
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
	text, _, _ := strings.Cut(string(name), "\x00")
	d.info = device.Info{Name: text, Driver: "cuda", Kind: "discrete", Memory: int(memory), Float16: major >= 6}
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
	const nonBlocking = 1
	if err := d.do(func() error { return call(d.api.StreamCreate, uintptr(ptr(&d.stream)), nonBlocking) }); err != nil {
		return err
	}
	var err error
	d.info.Promise, err = conform.Probe(true, maxParams, device.RunOn(d))
	return err
}

// do calls f on a thread of the operating system on which the context of the device is current. f calls functions of
// the driver.
func (d *dev) do(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := call(d.api.CtxSetCurrent, d.context); err != nil {
		return err
	}
	return f()
}

// Close releases the context.
func (d *dev) Close() {
	if d.context == 0 {
		return
	}
	_ = d.do(func() error { return call(d.api.StreamDestroy, d.stream) })
	_ = call(d.api.DevicePrimaryCtxRelease, uintptr(d.ordinal))
	d.context = 0
}

// Alloc implements device.Device. If hostAccess is true, it allocates memory of the host, which the device accesses at
// the same address.
func (d *dev) Alloc(bytes int, hostAccess bool) (*device.Buffer, error) {
	if bytes < 1 {
		return nil, fmt.Errorf("cuda: a buffer has %d bytes: want at least 1", bytes)
	}
	b := &device.Buffer{Size: bytes}
	return b, d.do(func() error {
		if !hostAccess {
			b.Free = func() { _ = d.do(func() error { return call(d.api.MemFree, uintptr(b.Address)) }) }
			return call(d.api.MemAlloc, uintptr(ptr(&b.Address)), uintptr(bytes))
		}
		var at unsafe.Pointer
		const portableAndMapped = 3 // CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP
		if err := call(d.api.MemHostAlloc, uintptr(ptr(&at)), uintptr(bytes), portableAndMapped); err != nil {
			return err
		}
		b.Address, b.Bytes = uint64(uintptr(at)), unsafe.Slice((*byte)(at), bytes)
		b.Free = func() { _ = d.do(func() error { return call(d.api.MemFreeHost, uintptr(at)) }) }
		return nil
	})
}

// kernel is a compiled kernel: a module of CUDA with one function.
type kernel struct {
	d                *dev
	module, function uintptr
	params, threads  int // number of addresses, and of threads in a group
}

// Free unloads the module. No run may use it afterwards.
func (k *kernel) Free() { _ = k.d.do(func() error { return call(k.d.api.ModuleUnload, k.module) }) }

// Compile implements device.Device.
func (d *dev) Compile(kir *ir.Kernel) (device.Kernel, error) {
	text, err := ptx.Module(kir, d.processor)
	if err != nil {
		return nil, err
	}
	k := &kernel{d: d, params: kir.Params, threads: kir.GroupSize}
	return k, d.do(func() error {
		image, name, log := append([]byte(text), 0), []byte("main\x00"), make([]byte, 1<<13)
		const errorLog, errorLogSize = 5, 6 // values of CUjit_option
		options := [2]int32{errorLog, errorLogSize}
		values := struct {
			log  *byte
			size uint64
		}{&log[0], uint64(len(log))}
		if err := call(d.api.ModuleLoadDataEx, uintptr(ptr(&k.module)), uintptr(ptr(&image[0])), uintptr(len(options)),
			uintptr(ptr(&options[0])), uintptr(ptr(&values))); err != nil {
			message, _, _ := strings.Cut(string(log), "\x00")
			return fmt.Errorf("%w: %s", err, message)
		}
		return call(d.api.ModuleGetFunction, uintptr(ptr(&k.function)), k.module, uintptr(ptr(&name[0])))
	})
}

// Run implements device.Device. The steps of a stream run in order.
func (d *dev) Run(steps []device.Step) error {
	return d.do(func() error {
		for _, s := range steps {
			if err := d.launch(s); err != nil {
				return errors.Join(err, call(d.api.StreamSynchronize, d.stream))
			}
		}
		return call(d.api.StreamSynchronize, d.stream)
	})
}

// launch starts a step on the stream of the device.
func (d *dev) launch(s device.Step) error {
	if s.Kernel == nil {
		if !s.CopyFits() {
			return errors.New("cuda: a copy has no buffer, or exceeds a buffer")
		}
		return call(d.api.MemcpyAsync, uintptr(s.To.Address)+uintptr(s.ToAt), uintptr(s.From.Address)+uintptr(s.FromAt),
			uintptr(s.Bytes), d.stream)
	}
	k, ok := s.Kernel.(*kernel)
	if !ok || k.d != d || len(s.Addresses) != k.params || s.Groups < 1 {
		return errors.New("cuda: a launch has a kernel of another device, a wrong number of addresses, or no groups")
	}
	values := make([]*uint64, k.params+1) // one more than needed, so that element 0 exists
	for i := range s.Addresses {
		values[i] = &s.Addresses[i]
	}
	x, y := device.Grid(s.Groups)
	return call(d.api.LaunchKernel, k.function, uintptr(x), uintptr(y), 1, uintptr(k.threads), 1, 1, 0, d.stream,
		uintptr(ptr(&values[0])), 0)
}
