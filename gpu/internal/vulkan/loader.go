//go:build (linux || darwin) && (amd64 || arm64)

package vulkan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ebitengine/purego"
)

// loader is Vulkan's loader: the library that finds drivers and forwards calls to them.
const loader = "libvulkan.so.1"

// manifestFolders are the folders of manifests. A manifest is a JSON file that names the library of a driver.
var manifestFolders = []string{"/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"}

// libraries returns the libraries to open: the loader if it is installed, otherwise the libraries of all drivers.
func libraries() []string {
	if handle, err := purego.Dlopen(loader, purego.RTLD_NOW|purego.RTLD_LOCAL); err == nil {
		_ = purego.Dlclose(handle) // openLibrary opens the loader again
		return []string{loader}
	}
	return drivers()
}

// drivers returns the libraries that manifests name. The manifests are the files listed in the environment variable
// VK_DRIVER_FILES, else the files in VK_ICD_FILENAMES, else the files in manifestFolders. Unreadable manifests are
// skipped.
func drivers() (list []string) {
	manifestFiles := filepath.SplitList(os.Getenv("VK_DRIVER_FILES"))
	if len(manifestFiles) == 0 {
		manifestFiles = filepath.SplitList(os.Getenv("VK_ICD_FILENAMES"))
	}
	if len(manifestFiles) == 0 {
		for _, folder := range manifestFolders {
			found, _ := filepath.Glob(filepath.Join(folder, "*.json")) // the pattern is valid
			manifestFiles = append(manifestFiles, found...)
		}
	}
	for _, file := range manifestFiles {
		var manifest struct {
			ICD struct {
				Library string `json:"library_path"`
			}
		}
		content, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(content, &manifest) != nil || manifest.ICD.Library == "" {
			continue
		}
		library := manifest.ICD.Library
		// A relative path starts at the folder of the manifest. Dlopen searches for a name without "/".
		if strings.Contains(library, "/") && !filepath.IsAbs(library) {
			library = filepath.Join(filepath.Dir(file), library)
		}
		list = append(list, library)
	}
	return list
}

// openLibrary opens a library and returns the address of its function vkGetInstanceProcAddr, which finds all other
// functions. If the library is a driver and not the loader, openLibrary first negotiates the version of the interface
// between loader and driver.
func openLibrary(library string) (getProcAddr uintptr, err error) {
	handle, err := purego.Dlopen(library, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return 0, err
	}
	if getProcAddr, err = purego.Dlsym(handle, "vkGetInstanceProcAddr"); err == nil {
		return getProcAddr, nil
	}
	if getProcAddr, err = purego.Dlsym(handle, "vk_icdGetInstanceProcAddr"); err != nil {
		return 0, err
	}
	if negotiate, err := purego.Dlsym(handle, "vk_icdNegotiateLoaderICDInterfaceVersion"); err == nil {
		// Since version 5 of this interface, drivers accept every version of Vulkan that a program requests.
		version := uint32(5)
		if err := call(negotiate, uintptr(ptr(&version))); err != nil {
			return 0, err
		}
	}
	return getProcAddr, nil
}

// result is a VkResult.
type result int32

// Error returns the name of a frequent error, or the number of any other error.
func (r result) Error() string {
	names := map[result]string{-1: "out of host memory", -2: "out of device memory", -3: "initialization failed",
		-4: "device lost", -7: "extension not present", -8: "feature not present", -9: "incompatible driver"}
	if name, ok := names[r]; ok {
		return "vulkan: " + name
	}
	return fmt.Sprintf("vulkan: error %d", int32(r))
}

var errNoFunction = errors.New("vulkan: the driver lacks a function")
