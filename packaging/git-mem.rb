# Homebrew formula, for a tap. docs/releasing.md says what a release fills in.
class GitMem < Formula
  include Language::Python::Virtualenv

  desc "Memory for coding agents, kept in the repository's own git notes"
  homepage "HOMEPAGE" # at a release: where the sources are
  url "https://files.pythonhosted.org/packages/source/g/git-mem/git_mem-0.1.0.tar.gz"
  sha256 "SHA256" # at a release: of the file in dist/ that tools/try_packages.sh tried
  license all_of: ["MIT", "Apache-2.0"]

  depends_on "git"
  depends_on "numpy" # Homebrew's own: from source it would take a compiler and minutes
  depends_on "python@3.13"

  # `brew update-python-resources --exclude-packages numpy` writes typer and what it needs here.

  def install
    virtualenv_install_with_resources system_site_packages: true
  end

  test do
    system bin/"git-mem", "tour"
  end
end
