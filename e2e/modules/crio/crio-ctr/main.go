// crio-ctr understands the words of containerd's ctr that the cases use, for the images of CRI-O: it brings images to the node that no
// registry has, gives them names and takes names away.
//
//	crio-ctr ROOT RUNROOT images import [--local] [--digests] FILE
//	crio-ctr ROOT RUNROOT images tag NAME OTHER
//	crio-ctr ROOT RUNROOT images rm --sync NAME
//	crio-ctr ROOT RUNROOT images ls -q
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/oci/archive"
	"go.podman.io/image/v5/signature"
	images "go.podman.io/image/v5/storage"
	"go.podman.io/image/v5/types"
	"go.podman.io/storage"
	"go.podman.io/storage/pkg/reexec"
)

// What a file of containerd calls its image.
const nameOfImage = "io.containerd.image.name"

func main() {
	// Layers are unpacked by this program, called by another name.
	if reexec.Init() {
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "crio-ctr:", err)
		os.Exit(1)
	}
}

func run(words []string) error {
	if len(words) < 4 {
		return fmt.Errorf("usage: crio-ctr ROOT RUNROOT images import|tag|rm|ls ...")
	}
	store, err := storage.GetStore(storage.StoreOptions{GraphRoot: words[0], RunRoot: words[1], GraphDriverName: "overlay"})
	if err != nil {
		return err
	}
	defer store.Free()
	command, operands := words[2]+" "+words[3], words[4:]
	switch {
	case command == "images import" && len(operands) > 0:
		// Both only say how containerd does it.
		file := len(operands) - 1
		for _, option := range operands[:file] {
			if option != "--local" && option != "--digests" {
				return fmt.Errorf("unknown option %q of %s", option, command)
			}
		}
		return bring(store, operands[file])
	case command == "images tag" && len(operands) == 2:
		id, err := store.Lookup(operands[0])
		if err != nil {
			return err
		}
		return store.AddNames(id, []string{operands[1]})
	case command == "images rm" && len(operands) == 2 && operands[0] == "--sync":
		id, err := store.Lookup(operands[1])
		if err != nil {
			return err
		}
		return store.RemoveNames(id, []string{operands[1]})
	case command == "images ls" && slices.Equal(operands, []string{"-q"}):
		return list(store)
	}
	return fmt.Errorf("unknown command %q", words[2:])
}

// bring copies the one image of an OCI archive into the store, under its name.
func bring(store storage.Store, file string) error {
	// Else it were /var/tmp, whatever TMPDIR says.
	system := &types.SystemContext{BigFilesTemporaryDir: os.TempDir()}
	from, err := archive.NewReference(file, "")
	if err != nil {
		return err
	}
	described, err := archive.LoadManifestDescriptorWithContext(system, from)
	if err != nil {
		return err
	}
	name, err := reference.ParseNormalizedNamed(described.Annotations[nameOfImage])
	if err != nil {
		return fmt.Errorf("%s of the image in %s: %w", nameOfImage, file, err)
	}
	to, err := images.Transport.NewStoreReference(store, name, "")
	if err != nil {
		return err
	}
	policy, err := signature.NewPolicyContext(&signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	if err != nil {
		return err
	}
	_, err = copy.Image(context.Background(), policy, to, from, &copy.Options{SourceCtx: system, DestinationCtx: system})
	return err
}

// list prints the digest of each configuration, which is the ID of an image, and its names.
func list(store storage.Store) error {
	all, err := store.Images()
	for _, image := range all {
		fmt.Println("sha256:" + image.ID)
		for _, name := range image.Names {
			fmt.Println(name)
		}
	}
	return err
}
