module github.com/graphrun/graphrun/compat/microsoft

go 1.26.0

require (
	github.com/graphrun/graphrun v0.0.0-20261201055947-ddeff3974192
	github.com/graphrun/graphrun/compat/onnxruntime v0.0.0-20261201055947-ddeff3974192
)
