package main

import (
	"crypto/sha256"
	"fmt"
	"path"
	"strings"
)

// splitImage splits an image reference into its repository and its digest, if
// it has one; the tag is dropped.
func splitImage(image string) (repository, digest string) {
	repository, digest, _ = strings.Cut(image, "@")
	if colon := strings.LastIndex(repository, ":"); colon > strings.LastIndex(repository, "/") {
		repository = repository[:colon]
	}
	return repository, digest
}

func lastElement(image string) string {
	repository, _ := splitImage(image)
	return path.Base(repository)
}

func (options *options) isExitImage(image string) bool {
	matches, _ := path.Match(options.exitImage, image)
	return matches || lastElement(image) == "exit"
}

// imageIDOf is the imageID that the provider reports; the digest is made up.
func (options *options) imageIDOf(image string) string {
	if options.imageID == "empty" {
		return ""
	}
	repository, digest := splitImage(image)
	if digest == "" {
		digest = "sha256:" + hash(image)
	}
	return repository + "@" + digest
}

func hash(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
